"""The systems that are measured: a launcher with the checkpoint script and a saver."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.launchers import Command, Dlrover, Launcher, Resile, Site, Torchrun

SCRIPT = Path(__file__).with_name("script") / "train.py"
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Plan:
    """The settings of the script."""

    megabytes: int = 200
    every: int = 50
    """Steps between saves; the default of Resile's Checkpointer."""
    durable: bool = False
    """Whether saves go to storage; some systems can save only there."""
    compute: bool = False
    """Whether a step keeps its core busy instead of sleeping."""

    def environment(self, storage: Path) -> dict[str, str]:
        """The environment variables that the script reads."""
        return {
            "BENCH_BYTES": str(self.megabytes * MEGABYTE),
            "BENCH_EVERY": str(self.every),
            "BENCH_DURABLE": "1" if self.durable else "",
            "BENCH_COMPUTE": "1" if self.compute else "",
            "BENCH_STORAGE": str(storage),
        }


@dataclass(frozen=True)
class CheckpointSystem(Launcher):
    """A launcher whose workers save their state in one way."""

    name: str
    label: str
    under: Launcher
    saver: str
    """A module of the script's folder."""
    plan: Plan = Plan()

    @property
    def family(self) -> str:  # type: ignore[override]
        return self.under.family

    def prepare(self) -> None:
        self.under.prepare()

    def service(self, site: Site) -> Command | None:
        return self.under.service(site)

    def agent(self, site: Site, node: int) -> Command:
        command = self.under.agent(site, node)
        plan = self.plan.environment(storage_of(site))
        # A launcher's command ends with the script.
        argv = [*command.argv[:-1], str(SCRIPT)]
        return Command(argv, {**command.env, **plan, "BENCH_SAVER": self.saver})

    def is_master(self, argv: Sequence[str]) -> bool:
        return self.under.is_master(argv)


def storage_of(site: Site) -> Path:
    """The folder of a job's checkpoints."""
    return site.folder / "storage"


def planned(system: Launcher, plan: Plan) -> CheckpointSystem:
    """The system with another plan."""
    if not isinstance(system, CheckpointSystem):
        raise TypeError(f"{system.name} saves nothing")
    return replace(system, plan=plan)


COPY = "copy"
_TORCHRUN = Torchrun(private_store=True)

CHECKPOINT_SYSTEMS: tuple[CheckpointSystem, ...] = (
    CheckpointSystem(COPY, "plain copy", _TORCHRUN, "save_copy"),
    CheckpointSystem("torch-save", "torch.save", _TORCHRUN, "save_torch"),
    CheckpointSystem("dcp-async", "DCP async_save", _TORCHRUN, "save_dcp"),
    CheckpointSystem("dlrover", "DLRover flash", Dlrover(), "save_dlrover"),
    CheckpointSystem("resile", "Resile", Resile(), "save_resile"),
)
