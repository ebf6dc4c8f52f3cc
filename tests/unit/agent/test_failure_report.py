"""The report on a job's first failure, for people and for the process that started the agent."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from torch.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler

from resile.agent.failure_report import error_content, write_error_file
from resile.agent.worker_errors import read_error_file
from resile.wire.messages import FailureReport, WorkerFailure

TRACEBACK = "Traceback (most recent call last):\n  File 'x', line 1\nValueError: so it was"


def report(**failure: Any) -> FailureReport:
    given = {"local_rank": 0, "rank": 3, "pid": 7, "exit_code": 1, **failure}
    return FailureReport(node=1, name="n", host="h", failure=WorkerFailure(**given), when=99.5)


def recorded(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An error file as torch itself writes it."""
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    try:
        raise ValueError("so it was")
    except ValueError as error:
        ErrorHandler().record_exception(error)
    return read_error_file(path).content


def test_a_workers_error_file_is_passed_on_as_torch_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = recorded(tmp_path / "child.json", monkeypatch)
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    write_error_file(ours, report(exit_code=-11, error_file=content))
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(theirs))
    ErrorHandler().dump_error_file(str(tmp_path / "child.json"), -11)
    assert json.loads(ours.read_text()) == json.loads(theirs.read_text())
    assert json.loads(ours.read_text())["message"]["message"] == "ValueError: so it was"


def test_a_message_that_is_plain_text_is_passed_on_unchanged() -> None:
    content = json.dumps({"message": "as the platform says it", "timestamp": 10, "more": 1})
    assert error_content(report(error_file=content)) == json.loads(content)


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"other": 1}', '{"message": 3}'])
def test_without_an_error_file_torch_can_read_what_is_passed_on(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "error.json"
    write_error_file(path, report(error_file=content, message=TRACEBACK))
    read = ProcessFailure(local_rank=0, pid=7, exitcode=1, error_file=str(path))
    assert read.timestamp == 99
    said = json.loads(path.read_text())["message"]
    assert said["message"] == "ValueError: so it was"
    assert said["extraInfo"]["py_callstack"] == TRACEBACK
    assert said["errorCode"] == 1


def test_a_signal_is_named() -> None:
    said: Any = error_content(report(exit_code=-9, message="the last line"))["message"]
    assert said["message"] == "rank 3: was killed by SIGKILL (code 137)"


def test_an_error_file_that_cannot_be_written_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("resile"), "propagate", True)
    write_error_file(tmp_path / "no" / "folder.json", report())
    assert "cannot be written: No such file or directory" in caplog.text
