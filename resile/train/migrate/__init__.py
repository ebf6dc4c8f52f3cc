"""Moving a training job: save on request at a step boundary, stop, and go on elsewhere.

``signals`` has the files through which hooks and training meet, ``volume`` what rank 0 does with
them, ``beginning`` whether a run resumes. ``listening`` brings a request to all workers,
``boundaries`` finds the end of a step, ``saving`` and ``loading`` are the file itself, and
``migrator`` is what a script uses.
"""
