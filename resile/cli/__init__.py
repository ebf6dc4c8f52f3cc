"""Argument parsing and printing, nothing else."""
