"""An operator under load: many jobs at once, against a real API server.

No kubelets: a stand-in marks pods Running, so what is measured is the operator and the API server,
not containers. There is nothing to compare with on one machine, so the limits are absolute.
"""
