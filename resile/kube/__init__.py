"""Kubernetes as Resile needs it: the API client, and the machinery of controllers."""
