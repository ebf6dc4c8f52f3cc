"""Command lines of the masters that are measured alone, without a launcher."""

from pathlib import Path

from bench.launchers import HOST, Command
from bench.peers import dlrover_environment, resile_program


def resile_master(*flags: str, port: int, folder: Path, token: str) -> Command:
    """`resile master` with its default store in a separate folder."""
    argv = [resile_program(), "master", "--endpoint", f"{HOST}:{port}", *flags]
    return Command(argv, {"RESILE_TOKEN": token, "RESILE_HOME": str(folder)})


def dlrover_master(*, job: str, port: int, nodes: int) -> Command:
    """DLRover's local master."""
    argv = [dlrover_python(), "-u", "-m", "dlrover.python.master.main", "--platform", "local"]
    return Command([*argv, "--job_name", job, "--port", str(port), "--node_num", str(nodes)])


def dlrover_python() -> str:
    """The interpreter that has DLRover."""
    return str(dlrover_environment() / "python")
