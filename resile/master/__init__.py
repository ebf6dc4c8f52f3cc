"""The master of a job: one process in which its agents agree on rounds."""
