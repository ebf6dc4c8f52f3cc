"""The migration API for scripts: register state, listen for requests, and resume.

    migrator.register("model", model)
    migrator.register("optimizer", optimizer)
    migrator.register("metrics", metrics)
    migrator.listening()
    if migrator.resume:
        migrator.load_ckpt()

When a hook requests it, all workers save the same step into one file and exit with code 0. All
workers make these calls in the same order, as they do collectives, and every step has a collective
of all of them.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from dataclasses import replace
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from resile.checkpoint.errors import CheckpointError
from resile.train.checkpoint.round_channel import RankInfo, RoundChannel, open_channel
from resile.train.checkpoint.state.arrays import is_array
from resile.train.checkpoint.state.rng import is_generator, random_states, set_random_states
from resile.train.checkpoint.state.tree import has_state
from resile.train.migrate.errors import MigrationMistake, MigrationRefused
from resile.train.migrate.file import RECORD, SavedState, gather, write
from resile.train.migrate.request_listener import RequestListener
from resile.train.migrate.signal_dir import MigrationVolume, Run
from resile.train.migrate.signals import MigrationFiles
from resile.train.migrate.step_detection import StepDetector

__all__ = ["Migrator", "migrator"]

LINGER = 2.0
"""Seconds to wait for the SIGTERM that follows the end of a hook, with a margin."""


class Migrator:
    """The migrator of a process; a script uses :data:`migrator`."""

    def __init__(self) -> None:
        self._state: dict[str, Any] = {}
        self._place: RankInfo | None = None
        self._channel: RoundChannel | None = None
        self._volume: MigrationVolume | None = None
        self._listener: RequestListener | None = None
        self._boundaries = StepDetector(reached=self._reached, is_asked=self._is_asked)
        self._decisions: RoundChannel | None = None
        self._interval = 1.0
        self._linger = LINGER
        self._resume = False
        self._saved: SavedState | None = None
        self._unconfirmed = False
        self._done = 0
        self._marked = False
        self._moved = False

    # --- called by scripts ------------------------------------------------------------------

    def register(self, name: str, value: Any) -> None:
        """Save and restore ``value`` under ``name``.

        A dictionary, a list, a tensor or anything with ``state_dict`` and ``load_state_dict``.
        """
        _check(name, value)
        known = self._state.get(name, value)
        if known is not value:
            raise MigrationMistake(f"register('{name}', …): this name is used by another object")
        if name not in self._state:
            self._state[name] = value
            if not self._marked:
                self._boundaries.watch(value)

    def listening(self, interval: float = 1.0, *, linger: float = LINGER) -> None:
        """Check for requests every ``interval`` seconds from now on; one call is enough.

        After a save workers hold for ``linger`` seconds, then they exit.
        """
        if interval <= 0:
            raise MigrationMistake(f"listening(interval={interval}): must be more than 0 seconds")
        if self._listener is not None:
            return
        self._begin()
        self._interval, self._linger = interval, linger
        self._listen()

    @property
    def resume(self) -> bool:
        """Whether there is a save for this run to load; the same answer on all workers."""
        self._begin()
        return self._resume

    def load_ckpt(self, map_location: Any = "cpu") -> None:
        """Load the save into everything that is registered; all workers call it, once.

        Values go to the devices of the registered ones; ``map_location`` is accepted for
        compatibility and ignored. Raises on all workers if one cannot load it.
        """
        del map_location
        self._begin()
        if not self._resume:
            raise MigrationMistake(
                "load_ckpt(): there is no save for this run; check 'if migrator.resume:' first"
            )
        problem: CheckpointError | None = None
        try:
            saved = self._open()
            saved.load(self._state, rank=self._at().rank)
        except CheckpointError as error:
            problem = error
        self._agree_loaded(problem)
        self._confirm()

    def step(self) -> None:
        """Mark the end of a step, where all registered state is consistent.

        Not needed where a model and its optimizer are registered; exact where a script counts in
        another way. Once called, nothing else counts as the end of a step.
        """
        if not self._marked:
            self._marked = True
            self._boundaries.close()
        self._reached()

    def adopt(self, value: Any, name: str | None = None) -> None:
        """Register a variable, load it immediately if there is a save, and listen."""
        chosen = name or f"variable-{len(self._state)}"
        self.register(chosen, value)
        self.listening(self._interval, linger=self._linger)
        if self._resume and self._open().load_one(chosen, value, rank=self._at().rank):
            self._unconfirmed = True

    # --- beginning --------------------------------------------------------------------------

    def _begin(self) -> None:
        """Decide once, before anything else, whether this run resumes: on rank 0, for all."""
        if self._channel is not None:
            return
        self._place = _place()
        self._volume = MigrationVolume(MigrationFiles.from_environment(), _run(self._place))
        self._channel = open_channel(self._place)
        self._resume = self._channel.decide("resume", self._volume.begin, bool)
        atexit.register(self._end)

    def _at(self) -> RankInfo:
        assert self._place is not None
        return self._place

    def _files(self) -> MigrationVolume:
        assert self._volume is not None
        return self._volume

    def _open(self) -> SavedState:
        if self._saved is None:
            self._saved = SavedState(self._files().files.checkpoint)
        return self._saved

    def _agree_loaded(self, problem: CheckpointError | None) -> None:
        assert self._channel is not None
        problems = self._channel.gather("loaded", str(problem or ""), str)
        first = self._channel.decide("verdict", lambda: _first(problems or []), str)
        if problem is not None:
            raise problem
        if first:
            raise MigrationRefused(first)

    def _confirm(self) -> None:
        """Claim the save for this run, once all workers have loaded it."""
        self._unconfirmed = False
        self._saved = None
        if self._at().rank == 0:
            self._files().take()

    # --- in every step ----------------------------------------------------------------------

    def _is_asked(self) -> bool:
        return self._listener is not None and self._listener.is_asked()

    def _reached(self) -> None:
        if self._listener is None:
            return
        self._done += 1
        if self._unconfirmed:
            self._confirm()
        if self._listener.is_due(self._done):
            self._migrate()

    def _listen(self) -> None:
        self._decisions = open_channel(self._at())
        self._listener = RequestListener(
            open_channel(self._at()),
            self._decisions,
            is_requested=self._is_requested,
            interval=self._interval,
        )
        self._listener.start()

    def _is_requested(self) -> bool:
        """Called by the listening thread of rank 0."""
        requested = self._files().is_requested()
        if requested and not (self._marked or self._boundaries.can_see):
            self._tell(
                "a save is requested, but the end of a step is unknown: register the model and its "
                "optimizer, or call migrator.step() after every step"
            )
        return requested

    # --- moving -----------------------------------------------------------------------------

    def _migrate(self) -> None:
        assert self._decisions is not None
        self._tell("save migrate ckpt")
        now = random_states()
        self._boundaries.rewind_random()
        gathered = gather(self._state, self._decisions, step=self._done)
        set_random_states(now)

        def save() -> str:
            assert gathered is not None
            try:
                write(gathered, self._files().files.checkpoint)
                self._files().saved()
            except CheckpointError as error:
                self._files().not_saved()
                return str(error) or type(error).__name__
            return ""

        problem = self._decisions.decide("saved", save, str)
        if problem:
            self._tell(f"not saved, training continues: {problem}")
            self._listen()
            return
        self._tell("saved ckpt!")
        self._leave(self._decisions)

    def _leave(self, decisions: RoundChannel) -> NoReturn:
        """Hold, then exit with code 0; rank 0 last, because it may host the store.

        In a pod SIGTERM follows as soon as the hook is done. Ended by it, the pod counts as stopped
        and not as completed.
        """
        self._moved = True
        place = self._at()
        if place.rank == 0:
            self._files().wait_for_hook()
            time.sleep(self._linger)
        decisions.decide("leave", lambda: True, bool)
        decisions.gather("left", True, bool)
        sys.exit(0)

    def _end(self) -> None:
        """Clean up when the script exits. Every worker's thread ends before its interpreter does;
        if the script succeeded, the save it had loaded must not be resumed again."""
        if self._listener is not None:
            self._listener.stop()
        ended_well = getattr(sys, "last_value", None) is None
        if self._at().rank == 0 and ended_well and not self._moved:
            self._files().end()

    def _tell(self, text: str) -> None:
        if self._at().rank == 0:
            print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)


def _check(name: str, value: Any) -> None:
    if not isinstance(name, str) or not name or name == RECORD:
        raise MigrationMistake(
            f"register({name!r}, …): a name must be a non-empty text other than '{RECORD}'"
        )
    fits = isinstance(value, (dict, list, torch.Tensor)) or has_state(value) or is_generator(value)
    if not fits and not ("numpy" in sys.modules and is_array(value)):
        raise MigrationMistake(
            f"register('{name}', …): a {type(value).__name__} cannot be restored in place; "
            "register a dict or list that holds it, or MigratableVariable(value)"
        )


def _place() -> RankInfo:
    """This worker's ranks from the process group, else from the launcher."""
    place = RankInfo.from_environment()
    if dist.is_available() and dist.is_initialized():
        return replace(place, rank=dist.get_rank(), world=dist.get_world_size())
    return place


def _run(place: RankInfo) -> Run:
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0)
    first = 1 if "RESILE_ROUND" in os.environ else 0
    return Run(
        name=os.environ.get("TORCHELASTIC_RUN_ID", ""),
        restarted=restarts > 0 or place.round > first,
    )


def _first(problems: list[str]) -> str:
    bad = [f"rank {rank}: {problem}" for rank, problem in enumerate(problems) if problem]
    return bad[0] if bad else ""


migrator = Migrator()
"""The migrator of this process; any module may import it."""
