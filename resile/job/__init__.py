"""The description of a job: spec, status, nodes, exit causes. Types and validation, no I/O."""
