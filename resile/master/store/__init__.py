"""Stores for the records of a master: SQLite by default, or etcd."""
