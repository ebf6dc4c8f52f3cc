"""Ways in which a disk, a user or an attacker can damage a file."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

Spoil = Callable[[Path], object]


def _bad_utf8(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] = 0xFF
    file.write_bytes(data)


def _nested(file: Path) -> None:
    file.write_bytes(b'{"format": ' + b"[" * 200_000)


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _socket(file: Path) -> None:
    file.unlink()
    here = Path.cwd()
    os.chdir(file.parent)  # a socket's path may have 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(file.name)
    finally:
        os.chdir(here)


def _endless(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def _link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def _huge(file: Path) -> None:
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)


DAMAGES: dict[str, Spoil] = {
    "bad UTF-8": _bad_utf8,
    "nested": _nested,
    "empty": lambda file: file.write_bytes(b""),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "FIFO": _fifo,
    "folder": _folder,
    "socket": _socket,
    "endless": _endless,
    "link to itself": _link_to_itself,
    "huge": _huge,
}
