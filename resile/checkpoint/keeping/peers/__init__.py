"""Copies on other nodes: each node's keeper listens for the others, and sends to the next.

`Peers` is the way in. `proof` is how two keepers show each other that they belong to one job,
`calls` how they reach each other, `frames` how they talk, `door` what one answers, `asking` what
one asks, `arrival` what comes of it, `lookup` what is remembered. `copier` sends copies in the
background, `copy_progress` is how far they are, `transfers` how bytes are moved meanwhile.
"""

from resile.checkpoint.keeping.peers.peers import Peers

__all__ = ["Peers"]
