"""The commands on a cluster's jobs, against a real API server."""
