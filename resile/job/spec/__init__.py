"""The types of a manifest: the job, its roles and groups, and the kinds of value they hold."""
