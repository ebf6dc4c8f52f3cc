"""Elastic training with the Hugging Face ``Trainer``: one call before ``trainer.train()``.

    from resile import Checkpointer
    from resile.train.huggingface import make_elastic

    trainer = Trainer(model=model, args=args, train_dataset=dataset)
    make_elastic(trainer, Checkpointer("checkpoints/", every=50))
    trainer.train()

Needs transformers (``pip install 'resile[huggingface]'``).
"""

try:
    import transformers as _transformers  # noqa: F401
except ImportError as error:
    raise ImportError(
        "resile.train.huggingface needs transformers and accelerate: "
        "pip install 'resile[huggingface]'"
    ) from error

from resile.train.huggingface.elastic import ElasticCallback, TrainerMistake, make_elastic

__all__ = ["ElasticCallback", "TrainerMistake", "make_elastic"]
