"""Limits and usage of nodes on this machine."""
