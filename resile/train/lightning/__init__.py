"""Elastic training with Lightning's ``Trainer``: one callback.

    from lightning.pytorch import Trainer
    from resile import Checkpointer
    from resile.train.lightning import ElasticCheckpoint, as_launched

    elastic = ElasticCheckpoint(Checkpointer("checkpoints/", every=50))
    trainer = Trainer(strategy="ddp", callbacks=[elastic], **as_launched())
    trainer.fit(model, loader)

Needs lightning (``pip install 'resile[lightning]'``).
"""

try:
    import lightning.pytorch as _lightning  # noqa: F401
except ImportError as error:
    raise ImportError(
        "resile.train.lightning needs lightning: pip install 'resile[lightning]'"
    ) from error

from resile.train.lightning.callback import ElasticCheckpoint
from resile.train.lightning.checks import LightningMistake, as_launched

__all__ = ["ElasticCheckpoint", "LightningMistake", "as_launched"]
