"""Live training state into parts and back: what a training script's Checkpointer is made of.

``Capture`` takes a state apart and copies it into memory; ``restore`` puts one back at any world
size. In between lie parts (:mod:`resile.checkpoint.part`), in memory or on storage.
"""
