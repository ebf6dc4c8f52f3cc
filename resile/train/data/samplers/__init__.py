"""Elastic samplers: the order of an epoch, global batches, and the saved position."""
