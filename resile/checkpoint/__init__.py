"""Checkpoints: training state on storage. Parts, manifest, commit, catalog, pruning, export.

Nothing here imports torch: the command line reads checkpoints and the writer process writes them
without it. The training library turns live state into parts and back.
"""
