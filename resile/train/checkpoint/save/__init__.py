"""Saving a step: capture into parts, snapshots in memory, checkpoints on storage."""
