"""A job's nodes as observed from the cluster's objects. Pure."""
