"""Parts around the training of an elastic Lightning Trainer: loaders, signals, other stages."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lightning = pytest.importorskip("lightning.pytorch")

from resile import Checkpointer  # noqa: E402
from resile.train.lightning import ElasticCheckpoint  # noqa: E402

SAMPLES = 20


class Model(lightning.LightningModule):  # type: ignore[misc]
    """Records the samples of each epoch, and fails on request."""

    def __init__(self, *, breaks_at: int = -1) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.trained: list[tuple[int, int]] = []
        self._breaks_at = breaks_at

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        del batch_idx
        if self.global_step == self._breaks_at:
            raise KeyError("broken")
        self.trained += [(self.current_epoch, int(number)) for number in batch[0]]
        return self.layer(batch[0]).sum()

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        del batch_idx
        self.log("tested", self.layer(batch[0]).sum())

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-6)


def numbers(**options: Any) -> Any:
    return DataLoader(TensorDataset(torch.arange(float(SAMPLES))[:, None]), batch_size=3, **options)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("RESILE_LEDGER", raising=False)
    return tmp_path


def fit(model: Model, loader: Any, folder: Path, *more: Any, **options: Any) -> Any:
    with Checkpointer(folder / "checkpoints", every=1, quiet=True) as checkpointer:
        trainer = lightning.Trainer(
            **{"max_epochs": 2, "enable_checkpointing": False, **options},
            accelerator="cpu",
            callbacks=[*more, ElasticCheckpoint(checkpointer)],
            default_root_dir=folder,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
        )
        try:
            trainer.fit(model, loader)
        finally:
            checkpointer.wait()
    return trainer


def test_loaders_with_worker_processes_read_every_sample_once(folder: Path) -> None:
    def loader() -> Any:
        return numbers(shuffle=True, num_workers=2, persistent_workers=True)

    broken = Model(breaks_at=10)
    with pytest.raises(KeyError):
        fit(broken, loader(), folder)
    rest = Model()
    fit(rest, loader(), folder)
    times = Counter(broken.trained + rest.trained)
    assert len(times) == 2 * SAMPLES
    # 7 batches of 3 for 20 samples: one sample of each epoch is repeated to fill the last batch.
    assert sorted(times.values()) == [1] * (2 * SAMPLES - 2) + [2, 2]


def test_what_does_not_fill_a_batch_is_left_out_where_the_loader_says_so(folder: Path) -> None:
    model = Model()
    trainer = fit(model, numbers(drop_last=True), folder)
    assert trainer.global_step == 2 * (SAMPLES // 3)
    assert [number for epoch, number in model.trained if epoch == 1] == list(range(18))


def test_the_order_of_a_loader_that_does_not_shuffle_is_kept(folder: Path) -> None:
    model = Model()
    fit(model, numbers(), folder)
    assert [number for epoch, number in model.trained if epoch == 1] == [*range(20), 0]


def test_sigterm_ends_a_worker_of_an_agent_as_if_there_were_no_lightning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    handlers = []

    class Looking(lightning.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, *_: Any) -> None:
            handlers.append(signal.getsignal(signal.SIGTERM))

        def on_fit_start(self, *_: Any) -> None:
            monkeypatch.setenv("RESILE_SNAPSHOTS", "an agent's")

    fit(Model(), numbers(), folder, Looking())
    assert set(handlers) == {before}


def test_lightnings_own_checkpoints_are_there_for_what_comes_after_training(folder: Path) -> None:
    model = Model()
    trainer = fit(model, numbers(), folder, enable_checkpointing=True)
    (found,) = trainer.test(dataloaders=numbers(), ckpt_path="best", verbose=False)
    assert "tested" in found
    assert Path(trainer.checkpoint_callback.best_model_path).is_file()
