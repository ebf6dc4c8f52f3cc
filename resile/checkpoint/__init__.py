"""Training state at rest: parts, manifests, storage, memory, and the process that writes.

Nothing here imports torch: the agent keeps snapshots and the command line reads checkpoints without
it. How live state becomes parts and comes back is the training library's.
"""
