"""This machine as a platform: each node is a process with its own limits."""
