"""Workers' output through real pipes: a console without a reader, full disks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from resile.agent.console import QUEUE_FULL, Console, ConsoleWriter, LineSource
from resile.agent.relay import KEPT_BYTES, OutputFile, OutputRelay, OutputStream
from tests.local.commands import wait_for

PATIENCE = 60.0


@dataclass
class Reader:
    """The other end of a console."""

    descriptor: int
    writer: ConsoleWriter

    def until(self, wanted: bytes) -> bytes:
        """Read up to and including ``wanted``."""
        found = b""
        while wanted not in found:
            found += os.read(self.descriptor, 65536)
        return found


@pytest.fixture
def console() -> Iterator[Reader]:
    read, write = os.pipe()
    yield Reader(read, ConsoleWriter(write, "stdout"))
    os.close(read)


def piped(
    relay: OutputRelay, console: ConsoleWriter | None, *, file: OutputFile | None = None
) -> tuple[OutputStream, int]:
    read, write = os.pipe()
    source = LineSource(b"[0] ")
    stream = OutputStream(read, console=console, source=source, file=file)
    relay.add(stream)
    return stream, write


def relay_to(console: Reader) -> OutputRelay:
    return OutputRelay(Console(console.writer, console.writer))


def test_a_prompt_appears_without_a_newline(console: Reader) -> None:
    _, write = piped(relay_to(console), console.writer)
    os.write(write, b"continue? ")
    assert console.until(b"? ") == b"[0] continue? "
    os.write(write, b"yes\n")
    assert console.until(b"\n") == b"yes\n"
    os.close(write)


def test_half_a_character_waits_for_its_other_half(console: Reader) -> None:
    _, write = piped(relay_to(console), console.writer)
    euro = "€".encode()
    os.write(write, b"5" + euro[:1])
    assert console.until(b"5") == b"[0] 5"
    os.write(write, euro[1:])
    assert console.until(euro) == euro
    os.close(write)


def test_a_file_has_every_byte_as_it_was_written(tmp_path: Path) -> None:
    file = OutputFile(tmp_path / "out.log")
    written = b"\r 1%\r\n\xff\xfe half \xe2\x82" + os.urandom(200_000)
    relay = OutputRelay(Console.of_this_process())
    stream, write = piped(relay, None, file=file)
    with open(write, "wb") as pipe:
        pipe.write(written)
    stream.ended.result(PATIENCE)
    assert file.path.read_bytes() == written
    assert not relay.losses


def test_last_words_are_heard_also_if_nobody_reads_the_console(console: Reader) -> None:
    relay = relay_to(console)
    stream, write = piped(relay, console.writer)
    line = b"x" * 1023 + b"\n"
    os.set_blocking(write, False)

    def all_is_full() -> bool:
        try:
            os.write(write, line)
        except BlockingIOError:
            return console.writer.is_full
        return False

    wait_for(lambda: any(all_is_full() for _ in range(100)), "a full console and a full pipe")
    assert not stream.ended.done()
    os.close(write)
    relay.worker_ended(stream)
    stream.ended.result(PATIENCE)
    assert stream.kept == line * (KEPT_BYTES // len(line))
    assert console.writer.size >= QUEUE_FULL


def test_all_that_was_written_is_waited_for_at_the_end(console: Reader) -> None:
    relay = relay_to(console)
    for number in range(1, 21):
        _, write = piped(relay, console.writer)
        os.write(write, b"x" * 2000)  # no newline, and the pipe stays open
        relay.drain(stall=PATIENCE, keep_waiting=lambda: True)
        assert console.writer.written >= number * 2000
        os.close(write)


def test_what_could_not_be_written_to_the_console_is_counted() -> None:
    writer = ConsoleWriter(os.open("/dev/full", os.O_WRONLY), "stdout")
    writer.write(LineSource(), b"lost\n")
    assert writer.wait_until_written(PATIENCE)
    assert str(writer.loss) == (
        "5 bytes of output could not be written to stdout: No space left on device"
    )


def test_a_reader_that_is_gone_is_no_loss(console: Reader) -> None:
    read, write = os.pipe()
    os.close(read)
    writer = ConsoleWriter(write, "stdout")
    writer.write(LineSource(), b"for nobody\n")
    assert writer.wait_until_written(PATIENCE)
    assert writer.loss is None


def test_a_full_disk_is_said_once_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "out.log"
    path.symlink_to("/dev/full")
    file = OutputFile(path)
    relay = OutputRelay(Console.of_this_process())
    stream, write = piped(relay, None, file=file)
    for _ in range(3):
        os.write(write, b"lost\n")
    os.close(write)
    stream.ended.result(PATIENCE)
    (loss,) = relay.losses
    assert (loss.where, loss.size, loss.why) == (str(path), 15, "No space left on device")
    assert caplog.text.count("cannot write a worker's output to") == 1


def test_a_file_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    file = OutputFile(tmp_path / "later" / "out.log")
    assert not file.open()
    file.write(b"lost")
    file.path.parent.mkdir()
    file.write(b"kept")
    file.close()
    assert file.path.read_bytes() == b"kept"
    assert file.loss is not None
    assert file.loss.size == 4
