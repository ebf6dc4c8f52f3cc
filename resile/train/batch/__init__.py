"""The elastic batch: the same gradient on any number of ranks."""

from resile.train.batch.errors import BatchError, BatchMistake, PlanBroken
from resile.train.batch.learning_rate import LinearScaling, SqrtScaling, scaled
from resile.train.batch.trainer import ElasticTrainer, GlobalBatch

__all__ = [
    "BatchError",
    "BatchMistake",
    "ElasticTrainer",
    "GlobalBatch",
    "LinearScaling",
    "PlanBroken",
    "SqrtScaling",
    "scaled",
]
