"""The library for training scripts: checkpoints, data, elastic batches, integrations."""
