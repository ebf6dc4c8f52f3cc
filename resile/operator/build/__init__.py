"""Builders of a job's Kubernetes objects. Pure."""
