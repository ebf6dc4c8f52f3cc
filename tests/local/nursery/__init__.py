"""The nursery, tested with real processes."""
