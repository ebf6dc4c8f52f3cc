"""Jobs of a cluster, accessed from outside (a laptop, say): only through its API server."""
