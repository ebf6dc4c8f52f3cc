"""What a cluster shows of a job's nodes. Pure."""
