"""Elastic, fault-tolerant distributed training."""

__version__ = "0.1.0"
