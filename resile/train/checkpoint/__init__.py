"""Converts live training state into parts and back: the Checkpointer and its building blocks.

``Capture`` splits a state and copies it into memory; ``restore`` loads one at any world size. In
between are parts (:mod:`resile.checkpoint.part`), in memory or on storage.
"""
