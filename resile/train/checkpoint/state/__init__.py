"""Conversion of a live training state to JSON values and named tensors, and back."""
