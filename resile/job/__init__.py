"""What a job is: its spec, its nodes, why they end. Types and validation, no I/O."""
