"""Restoring a step: choice of the source, the plan, and loading it into live state."""
