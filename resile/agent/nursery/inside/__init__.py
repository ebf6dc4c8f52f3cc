"""The code that runs in a nursery process, and in a worker between its fork and its script.

Only the standard library is imported here, and as little of it as possible: every module loaded in
the nursery is already loaded in the workers forked from it. `hook/sitecustomize.py` loads this
package under a private name, so that neither `resile` nor any other module of ours is in a worker's
`sys.modules`. The agent imports `protocol` from here under the ordinary name, so that
both ends of the connection share one definition.
"""
