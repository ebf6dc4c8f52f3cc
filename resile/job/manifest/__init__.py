"""Parse and check manifests: text to plain data, data to types, types to a valid job."""
