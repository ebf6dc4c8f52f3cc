"""The Kubernetes operator: watches ElasticJobs and their pods, and reconciles them."""
