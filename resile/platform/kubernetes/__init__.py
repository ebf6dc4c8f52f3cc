"""Kubernetes as a platform: the API client, and the objects of a job."""
