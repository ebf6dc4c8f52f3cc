"""Storage of checkpoints: the interface, a local folder, an object store, and retries."""
