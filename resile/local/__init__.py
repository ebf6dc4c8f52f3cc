"""This machine as a platform: each node is a process tree with its own limits."""
