"""The Kubernetes controller: watches ElasticJobs and their pods, and does what is decided."""
