"""Data leased shard by shard. Imports nothing: its modules load a network client."""
