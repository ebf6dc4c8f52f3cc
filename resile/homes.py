"""The module that each name of the package ``resile`` is imported from.

Separate from the package itself, since the agent reads it, too: it preloads what a script will
import, and must not depend on the modules themselves.
"""

HOMES = {
    "Auto": "resile.train.checkpoint.policy",
    "Checkpointer": "resile.train.checkpoint.checkpointer",
    "ElasticBatchSampler": "resile.train.data",
    "ElasticSampler": "resile.train.data",
    "ElasticTrainer": "resile.train.batch",
    "MigratableVariable": "resile.train.migrate.variable",
    "ShardClient": "resile.train.data",
    "ShardedDataset": "resile.train.data",
    "addresses": "resile.train.addresses",
    "migrator": "resile.train.migrate.migrator",
    "open_dataset": "resile.train.data",
    "report": "resile.train.progress",
    "find_job": "resile.client.api",
    "submit": "resile.client.api",
    "wait": "resile.client.api",
}
