"""Leased data: the protocol, the leases (the master's side) and the client (a worker's side)."""
