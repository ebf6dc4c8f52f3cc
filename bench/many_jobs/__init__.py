"""An operator under load: many jobs at once, against a real API server.

There are no kubelets: a stub marks pods Running, so the operator and the API server are measured,
not containers. There is nothing to compare with on one machine, so the limits are absolute.
"""
