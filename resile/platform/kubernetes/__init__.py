"""A Kubernetes cluster as a platform: the API server's objects, and how to reach them."""
