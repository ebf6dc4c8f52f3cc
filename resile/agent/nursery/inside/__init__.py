"""What runs inside a nursery process, and in a worker between its fork and its first own line.

Nothing but the standard library is imported here, and as little of it as will do: every module
loaded in the nursery is already loaded in the workers forked from it. The package is entered by
`hook/sitecustomize.py`, which loads it under a private name, so that neither `resile` nor anything
else of ours stands in a worker's `sys.modules`. The agent's side imports `frames` and `messages`
from here under the ordinary name, so that both ends of the line share one definition.
"""
