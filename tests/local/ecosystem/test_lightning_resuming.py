"""Wherever a training with Lightning is interrupted, it resumes there with the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.storage.base import open_storage
from tests.local.commands import wait_for

lightning = pytest.importorskip("lightning.pytorch")

from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint, WeightAveraging  # noqa: E402

from resile import Checkpointer  # noqa: E402
from resile.train.lightning import ElasticCheckpoint  # noqa: E402


class Broken(Exception):
    """Raised to interrupt a training."""


class Numbers(Dataset):  # type: ignore[misc]
    """Noisy: a different value on each read."""

    def __len__(self) -> int:
        return 15

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(4) + index, torch.tensor([float(index % 3)])


class Network(lightning.LightningModule):  # type: ignore[misc]
    """Records the batches it was trained on, and counts its validations."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.trained: list[tuple[int, int, int]] = []
        self.validated = 0

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        self.trained.append((self.current_epoch, batch_idx, self.global_step))
        return self.loss(batch)

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        del batch_idx
        self.log("loss", self.loss(batch))

    def on_validation_end(self) -> None:
        self.validated += 1

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["validated"] = self.validated

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.validated = checkpoint["validated"]

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        steps = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.9)
        return [optimizer], [{"scheduler": steps, "interval": "step"}]


class OnPlateau(Network):
    """A model whose learning rate depends on the validation after every epoch."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.001)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": "loss", "interval": "epoch"},
        }


class ByHand(Network):
    """Two optimizers, stepped by the module itself."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:  # type: ignore[override]
        self.trained.append((self.current_epoch, batch_idx, self.global_step))
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [
            torch.optim.Adam(self.layers[0].parameters(), lr=0.01),
            torch.optim.SGD(self.layers[2].parameters(), lr=0.01, momentum=0.9),
        ]


class Data(lightning.LightningDataModule):  # type: ignore[misc]
    """A datamodule with a state."""

    def __init__(self) -> None:
        super().__init__()
        self.state = 0

    def train_dataloader(self) -> Any:
        return DataLoader(Numbers(), batch_size=2, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(Numbers(), batch_size=5)

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.state = state_dict["state"]


class Breaking(lightning.Callback):  # type: ignore[misc]
    """Raises in some hook when it is called for the nth time."""

    def __init__(self, hook: str, times: int) -> None:
        self._left = times
        setattr(self, hook, self._called)

    def _called(self, *_: Any) -> None:
        self._left -= 1
        if not self._left:
            raise Broken


class CountingSteps(lightning.Callback):  # type: ignore[misc]
    """A callback with a state, which also counts in the datamodule."""

    def __init__(self) -> None:
        self.steps = 0

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        self.steps += 1
        trainer.datamodule.state += 1

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps = state_dict["steps"]


@dataclass(frozen=True)
class Training:
    """One configuration: 15 samples, 2 a batch, 3 epochs unless specified otherwise."""

    model: type[Network] = Network
    options: dict[str, Any] = field(default_factory=dict)
    callbacks: Callable[[Path], list[Any]] = lambda _: []


@dataclass
class Outcome:
    """The result of a training."""

    weights: list[torch.Tensor]
    numbers: tuple[Any, ...]
    trained: list[tuple[int, int, int]]


def train(how: Training, folder: Path, *, every: int = 1, breaking: Any = None) -> Outcome | None:
    """Train from the saved state to the end; None if it is interrupted."""
    lightning.seed_everything(7, verbose=False)
    model, data, counting = how.model(), Data(), CountingSteps()
    with Checkpointer(folder / "checkpoints", every=every, quiet=True) as checkpointer:
        callbacks = [counting, *how.callbacks(folder), ElasticCheckpoint(checkpointer)]
        trainer = lightning.Trainer(
            **{
                "accelerator": "cpu",
                "max_epochs": 3,
                "enable_checkpointing": False,
                "enable_progress_bar": False,
                "enable_model_summary": False,
                "logger": False,
                "num_sanity_val_steps": 0,
                "val_check_interval": 0.5,
                **how.options,
            },
            callbacks=callbacks if breaking is None else [*callbacks, breaking],
        )
        try:
            trainer.fit(model, datamodule=data)
        except Broken:
            checkpointer.wait()
            return None
    if every == 1:
        _wait_until_stored(
            folder / "checkpoints", counting.steps // trainer.accumulate_grad_batches
        )
    rates = [group["lr"] for one in trainer.optimizers for group in one.param_groups]
    stopping = [one.wait_count for one in trainer.early_stopping_callbacks]
    loops = (trainer.global_step, trainer.current_epoch, trainer.fit_loop.total_batch_idx)
    best = [float(one.best_model_score) for one in trainer.checkpoint_callbacks]
    numbers = (*loops, model.validated, counting.steps, data.state, *rates, *stopping, *best)
    return Outcome(list(model.state_dict().values()), numbers, model.trained)


def _wait_until_stored(folder: Path, step: int) -> None:
    """Wait for the checkpoint, which another process still writes after the training has ended."""
    catalog = CheckpointCatalog(open_storage(str(folder)))
    wait_for(lambda: any(one.step == step for one in catalog.checkpoints()), f"step {step}")


WAYS = {
    "as usual": Training(),
    "accumulating": Training(options={"accumulate_grad_batches": 2}),
    "on a plateau": Training(OnPlateau, {"val_check_interval": 1.0}),
    "by hand": Training(ByHand),
    "so many steps": Training(options={"max_epochs": -1, "max_steps": 19}),
    "so many batches": Training(options={"limit_train_batches": 5}),
    "stopping early": Training(
        callbacks=lambda _: [EarlyStopping("loss", patience=1, min_delta=9.0)],
    ),
    "averaging weights": Training(callbacks=lambda _: [WeightAveraging()]),
    "with lightning's checkpoints": Training(
        options={"enable_checkpointing": True},
        callbacks=lambda folder: [ModelCheckpoint(folder, monitor="loss", save_top_k=2)],
    ),
}
BREAKS = [
    *(("on_train_batch_end", times) for times in (1, 4, 8, 9, 24)),
    ("on_validation_batch_end", 1),
    ("on_validation_end", 2),
    ("on_train_epoch_start", 2),
]
"""Hooks, and when they break: the first batch, the last of an epoch, the first of the next…"""

SOME = [("on_train_batch_end", 4), ("on_train_epoch_end", 1), ("on_train_end", 1)]
AFTER_VALIDATION = [
    (way, "on_validation_end", 1)
    for way in ("on a plateau", "stopping early", "with lightning's checkpoints")
]
"""The results of a validation (rate, patience, best model) belong to the state it is saved in."""

CASES = [
    *(("as usual", *one) for one in BREAKS),
    *((way, *one) for way in WAYS for one in SOME),
    *AFTER_VALIDATION,
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    known: dict[str, Outcome] = {}

    def outcome(way: str) -> Outcome:
        if way not in known:
            found = train(WAYS[way], tmp_path_factory.mktemp("undisturbed"), every=1000)
            assert found is not None
            known[way] = found
        return known[way]

    return outcome


@pytest.mark.parametrize(("way", "hook", "times"), CASES)
def test_what_was_broken_off_comes_to_the_same(
    undisturbed: Callable[[str], Outcome], tmp_path: Path, *, way: str, hook: str, times: int
) -> None:
    whole = undisturbed(way)
    assert train(WAYS[way], tmp_path, breaking=Breaking(hook, times)) is None
    rest = train(WAYS[way], tmp_path)
    assert rest is not None
    assert rest.numbers == whole.numbers
    assert rest.trained == whole.trained[len(whole.trained) - len(rest.trained) :]
    for ours, theirs in zip(rest.weights, whole.weights, strict=True):
        assert torch.equal(ours, theirs)


def test_more_steps_than_before_go_on_in_the_middle_of_an_epoch(
    undisturbed: Callable[[str], Outcome], tmp_path: Path
) -> None:
    whole = undisturbed("so many steps")
    fewer = Training(options={"max_epochs": -1, "max_steps": 5})
    begun = train(fewer, tmp_path)
    rest = train(WAYS["so many steps"], tmp_path)
    assert begun is not None
    assert rest is not None
    assert begun.trained + rest.trained == whole.trained
    assert rest.numbers == whole.numbers
    for ours, theirs in zip(rest.weights, whole.weights, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_complete_is_not_trained_again(tmp_path: Path, way: str) -> None:
    once = train(WAYS[way], tmp_path)
    again = train(WAYS[way], tmp_path)
    assert once is not None
    assert again is not None
    assert again.trained == []
    (step, _, *others) = again.numbers  # an epoch cut short counts only where it was cut
    assert (step, *others) == (once.numbers[0], *once.numbers[2:])
    for ours, theirs in zip(again.weights, once.weights, strict=True):
        assert torch.equal(ours, theirs)
