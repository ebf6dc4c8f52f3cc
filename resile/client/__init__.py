"""Jobs on this machine and on clusters, behind one interface.

``job`` has the interface, ``local`` and ``cluster`` its two implementations; all of it is async.
``sync`` is the blocking facade that ``resile.submit``, ``resile.wait`` and the command line use.
"""
