"""Users' mistakes: one or two clear lines, a nonzero exit code, and nothing left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import psutil
import pytest

from resile.wire.endpoint import free_port

USAGE, FAILURE = 2, 1
ROOT = Path(__file__).parents[3]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return furnished(tmp_path)


def furnished(folder: Path) -> Path:
    """Create a folder with a script that prints a line if it is run."""
    (folder / "script.py").write_text("print('the script ran')\n")
    (folder / "file").write_text("this is no folder\n")
    return folder


def resile(
    place: Path, *words: str, home: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run one command in ``place``."""
    homes = {"RESILE_HOME": str(home)} if home else {}
    return python(place, "-m", "resile", *words, **homes, **variables)


def python(
    place: Path, *words: str, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in ``place``, with all its state kept there."""
    kept = {key: v for key, v in os.environ.items() if not key.startswith(("RESILE_", "PET_"))}
    return subprocess.run(
        [sys.executable, *words],
        cwd=place,
        env={
            **kept,
            "RESILE_HOME": str(place / "home"),
            "XDG_CACHE_HOME": str(place / "cache"),
            "TMPDIR": str(place),
            **variables,
        },
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def is_refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    """Check the exit code, that there are at most two lines, and that they contain these words."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "the script ran" not in done.stdout
    complaints = [line for line in done.stderr.splitlines() if not is_chatter(line)]
    assert 1 <= len(complaints) <= 2, done.stderr
    for words in said:
        assert words in " ".join(complaints), done.stderr


def is_chatter(line: str) -> bool:
    """Whether a line of the log is not an error."""
    return line.startswith("resile ") and "error:" not in line


def leaves_nothing(place: Path) -> None:
    """Check that there is no run's folder, no temporary file and no process of this place."""
    runs = place / "home" / "runs"
    assert not runs.exists() or list(runs.iterdir()) == []
    assert {entry.name for entry in place.iterdir()} <= {"script.py", "file", "home", "cache"}
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(place) in word for word in process.info["cmdline"] or [])
    ]
    assert left == []


SCRIPT = "script.py"
MISTAKES = {
    "an unknown flag": (["--nprocs", "2", SCRIPT], "--nprocs", "did you mean '--nproc-per-node'"),
    "a misspelt flag": (["--rdzv-endpont", "x", SCRIPT], "did you mean '--rdzv-endpoint'"),
    "no script": ([], "SCRIPT"),
    "a missing script": (["missing.py"], "'missing.py' does not exist"),
    "MIN above MAX": (["--nnodes", "3:2", SCRIPT], "--nnodes 3:2", "MIN (3)", "MAX (2)"),
    "nodes that are no number": (["--nnodes", "x", SCRIPT], "--nnodes x", "MIN:MAX"),
    "nodes of another script": (["--nnodes", "²", SCRIPT], "--nnodes ²", "MIN:MAX"),
    "three numbers of nodes": (["--nnodes", "1:2:3", SCRIPT], "--nnodes 1:2:3"),
    "no nodes": (["--nnodes", "0", SCRIPT], "at least 1 node"),
    "more nodes than anybody has": (["--nnodes", "1:999999999", SCRIPT], "at most"),
    "a unit above MAX": (["--nnodes", "2", "--node-unit", "3", SCRIPT], "node_unit (3)"),
    "no workers": (["--nproc-per-node", "0", SCRIPT], "--nproc-per-node 0"),
    "workers that are no number": (["--nproc-per-node", "many", SCRIPT], "auto, cpu, gpu or xpu"),
    "workers of another script": (["--nproc-per-node", "²", SCRIPT], "--nproc-per-node ²"),
    "too many workers": (["--nproc-per-node", "100000", SCRIPT], "at most 4096"),
    "an unknown setting": (["--rdzv-conf", "leese=1", SCRIPT], "did you mean lease"),
    "a setting without a value": (["--rdzv-conf", "lease", SCRIPT], "expected a number"),
    "a setting that is no number": (["--rdzv-conf", "lease=soon", SCRIPT], "expected a number"),
    "a setting that is nan": (["--rdzv-conf", "lease=nan", SCRIPT], "expected a number"),
    "a setting that is half": (["--rdzv-conf", "node_unit=1.5", SCRIPT], "a whole number"),
    "a time below zero": (["--rdzv-conf", "verdict_window=-1", SCRIPT], "verdict_window"),
    "a lease too short to watch": (["--rdzv-conf", "lease=0.001", SCRIPT], "lease must be"),
    "another backend": (["--rdzv-backend", "etcd", SCRIPT], "--rdzv-backend etcd"),
    "restarts below zero": (["--max-restarts", "-1", SCRIPT], "--max-restarts"),
    "a rank below zero": (["--node-rank", "-1", SCRIPT], "--node-rank"),
    "two kinds of script": (["-m", "--no-python", SCRIPT], "exclude each other"),
    "a filter of no ranks": (["--local-ranks-filter", "a", SCRIPT], "--local-ranks-filter a"),
    "a role of two lines": (["--role", "a\nb", SCRIPT], "--role", "one line"),
    "an ambiguous flag": (["--ma", "1", SCRIPT], "--ma", "--master-addr or --master-port"),
    "a port of no machine": (["--master-port", "99999", SCRIPT], "--master-port"),
    "a signal nobody knows": (["--signals-to-handle", "SIGFOO", SCRIPT], "SIGFOO"),
    "a handler nobody knows": (["--event-log-handler", "x", SCRIPT], "--event-log-handler"),
    "logs specs nobody knows": (["--logs-specs", "x", SCRIPT], "--logs-specs x", "default"),
    "another start method": (["--start-method", "x", SCRIPT], "--start-method"),
    "an interval of no time": (["--monitor-interval", "x", SCRIPT], "--monitor-interval"),
    "an unknown shell": (["--print-completion", "x"], "--print-completion", "bash"),
    "a name of two lines": (["--rdzv-id", "a\nb", SCRIPT], "--rdzv-id", "one line"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """The exit code and the errors of `resile run` for every mistake."""
    place = furnished(tmp_path_factory.mktemp("mistakes"))
    commands = json.dumps([["run", *words] for words, *_ in MISTAKES.values()])
    done = python(place, "-m", "tests.local.cli.many", stdin=commands, PYTHONPATH=str(ROOT))
    leaves_nothing(place)
    return dict(zip(MISTAKES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_flag_of_run_that_cannot_be_is_named(
    outcomes: dict[str, tuple[int, str]], mistake: str
) -> None:
    code, stderr = outcomes[mistake]
    assert code == USAGE
    complaint, hint = stderr.splitlines()
    assert hint == "Try 'resile run --help' for help."
    for words in MISTAKES[mistake][1:]:
        assert str(words).lower() in complaint.lower()


OTHERS = {
    "no manifest": (["up", "absent.yaml"], "absent.yaml cannot be read"),
    "a manifest that is no text": (["up", "binary"], "binary is not a text file"),
    "a capacity of nothing": (["up", "--capacity", "much", "file"], "--capacity"),
    "no manifest to submit": (["submit", "absent.yaml"], "absent.yaml cannot be read"),
    "no folder of a ledger": (["data", "check", "a/b"], "there is no folder a/b"),
    "a file that is there": (["ckpt", "export", "home", "there.pt"], "--force overwrites it"),
    "a port of an operator": (["operator", "--image", "x", "--listen", "a:99999"], "65535"),
    "a port of a master": (["master", "--endpoint", "a:99999"], "from 0 to 65535"),
}


def test_mistakes_of_other_commands_have_the_same_code(place: Path) -> None:
    (place / "binary").write_bytes(b"\xff\xfe")
    (place / "there.pt").write_text("precious")
    commands = json.dumps([words for words, _ in OTHERS.values()])
    done = python(place, "-m", "tests.local.cli.many", stdin=commands, PYTHONPATH=str(ROOT))
    for (code, stderr), (words, said) in zip(json.loads(done.stdout), OTHERS.values(), strict=True):
        assert (code, said in stderr) == (USAGE, True), (words, stderr)
        assert len(stderr.splitlines()) == 2


CHECKED_LATER = {
    "streams": (["--redirects", "9"], "--redirects 9", "3 (both)"),
    "streams of ranks": (["--tee", "0:x"], "--tee 0:x"),
    "modules": (["--preload", "a b"], "--preload", "names such as torch"),
    "a port beyond all": (["--rdzv-endpoint", "127.0.0.1:99999"], "from 0 to 65535"),
    "a port that is no number": (["--rdzv-endpoint", "127.0.0.1:http"], "not 'http'"),
    "no host": (["--rdzv-endpoint", ":29400"], "HOST:PORT"),
    "a host nobody knows": (["--rdzv-endpoint", "nowhere.invalid:1"], "cannot be resolved"),
    "a host that is no name": (["--rdzv-endpoint", "a..b:1"], "not a valid host name"),
    "another machine, no token": (["--rdzv-endpoint", "203.0.113.7:1"], "--token-file"),
    "no token file": (["--token-file", "missing"], "token file missing"),
    "an authority that is none": (["--tls-ca", "file"], "--tls-ca file", "PEM"),
    "logs into a file": (["--log-dir", "file/logs"], "--log-dir file/logs", "Not a directory"),
}


@pytest.mark.parametrize(
    ("words", "said"), [(w, s) for w, *s in CHECKED_LATER.values()], ids=CHECKED_LATER
)
def test_a_value_that_run_cannot_use_is_named(
    place: Path, words: list[str], said: list[str]
) -> None:
    is_refused(resile(place, "run", *words, SCRIPT), USAGE, *said)
    leaves_nothing(place)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RESILE_NODE_RANK", "first"),
        ("RESILE_NODE_RANK", "-1"),
        ("RESILE_NODE_RANK", "²"),
        ("RESILE_NODE_ID", "x"),
        ("RESILE_NODE_NAME", "a\nb"),
        ("RESILE_NODE_NAME", "x" * 300),
    ],
)
def test_a_variable_of_the_platform_that_cannot_be_is_named(
    place: Path, variable: str, value: str
) -> None:
    is_refused(resile(place, "run", SCRIPT, **{variable: value}), USAGE, f"${variable}")
    leaves_nothing(place)


@pytest.mark.parametrize("variable", ["PET_NNODES", "PET_MAX_RESTARTS"])
def test_a_flag_in_a_variable_is_checked_as_well(place: Path, variable: str) -> None:
    is_refused(resile(place, "run", SCRIPT, **{variable: "x"}), USAGE)


@pytest.mark.parametrize("token", ["", "0123456789abcdef0123"])
def test_a_home_that_cannot_be_written_is_named(place: Path, token: str) -> None:
    variables = {"RESILE_TOKEN": token} if token else {}
    home = place / "file" / "home"
    words = ["--preload", "none", "--connect-timeout", "0", SCRIPT]
    done = resile(place, "run", *words, home=home, **variables)
    is_refused(done, FAILURE, str(home), "Not a directory")
    is_refused(resile(place, "master", home=home, **variables), FAILURE, "Not a directory")
    leaves_nothing(place)


@pytest.mark.parametrize(
    "words",
    [
        *(["run", "train.py"], ["run", "-m", "module"], ["ckpt", "ls", "folder"], ["prestop"]),
        ["master", "--store", "store.db"],
    ],
    ids=lambda words: words[0],
)
def test_a_deleted_working_directory_is_told_in_a_sentence(place: Path, words: list[str]) -> None:
    gone = place / "gone"
    gone.mkdir()
    # The folder is deleted while the command is in it, as when a build is cleaned under a shell.
    command = f"import os, runpy; os.rmdir({str(gone)!r}); runpy.run_module('resile')"
    done = python(gone, "-c", command, *words, **homes(place))
    is_refused(done, FAILURE, "the working directory was deleted")


def homes(place: Path) -> dict[str, str]:
    """The folders of a command's state, apart from its working directory."""
    return {"RESILE_HOME": str(place / "home"), "TMPDIR": str(place)}


def test_a_user_whose_home_cannot_be_written_has_a_folder_of_its_own(place: Path) -> None:
    variables = {"RESILE_HOME": "", "XDG_STATE_HOME": "", "HOME": str(place / "file")}
    done = resile(place, "run", "--standalone", "--preload", "none", SCRIPT, **variables)
    assert done.returncode == 0, done.stderr
    assert "the script ran" in done.stdout
    folder = place / f"resile-state-{os.getuid()}"
    assert f"the job's token and state are in {folder}" in done.stderr
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o755)
    for words in (["run", "--standalone", SCRIPT], ["jobs"]):
        refused = resile(place, *words, **variables)
        assert refused.returncode == FAILURE
        assert "is accessible to other users; set $RESILE_HOME to another folder" in refused.stderr
        assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rum"], "Did you mean 'run'?"),
        (["mastr"], "Did you mean 'master'?"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["--frobnicate"], "No such option '--frobnicate'"),
        (["master", "--tls-crt", "x"], "Did you mean '--tls-cert'?"),
        (["master", "surplus"], "surplus"),
    ],
)
def test_an_unknown_word_gets_a_suggestion(place: Path, words: list[str], said: str) -> None:
    is_refused(resile(place, *words), USAGE, said)
    leaves_nothing(place)


MASTERS = {
    "a store in a file": (["--store", "file/master.db"], FAILURE, "file/master.db", "cannot be"),
    "a store that is a folder": (["--store", "home"], FAILURE, "home", "cannot be"),
    "a store that is no database": (["--store", "file"], FAILURE, "file", "not a database"),
    "a store nobody knows": (["--store", "redis://x"], USAGE, "--store redis://x", "etcd://"),
    "a store with a slash too few": (["--store", "etcd:/x"], USAGE, "--store etcd:/x", "etcd://"),
    "a port beyond all": (["--endpoint", "127.0.0.1:99999"], USAGE, "from 0 to 65535"),
    "a certificate that is none": (["--tls-cert", "file"], USAGE, "--tls-cert file"),
    "a key without a certificate": (["--tls-key", "file"], USAGE, "--tls-cert"),
    "no token file": (["--token-file", "missing"], USAGE, "token file missing"),
    "nodes": (["--nnodes", "2:1"], USAGE, "MIN (2)"),
    "a setting": (["--rdzv-conf", "lease=0"], USAGE, "lease must be"),
    "an address of another": (["--endpoint", "203.0.113.7:1"], FAILURE, "cannot listen on"),
    "a host that is no name": (["--endpoint", "a..b:1"], FAILURE, "a..b"),
}


@pytest.mark.parametrize(
    ("words", "code", "said"), [(w, c, s) for w, c, *s in MASTERS.values()], ids=MASTERS
)
def test_what_a_master_cannot_do_is_said(
    place: Path, words: list[str], code: int, said: list[str]
) -> None:
    (place / "home").mkdir()
    where = [] if "--endpoint" in words else ["--endpoint", f"127.0.0.1:{free_port()}"]
    is_refused(resile(place, "master", *where, *words), code, *said)
    for lock in place.glob("*.lock"):
        lock.unlink()  # of the store the user named, which we must not remove
    leaves_nothing(place)


# --- ports, and who is behind them --------------------------------------------------------------


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Another program that listens; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with closing(connection):
                answer(connection)

    thread = Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def hang_up(_connection: socket.socket) -> None:
    """Close the connection without a response."""


def speak_ssh(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.0\r\n")


def test_a_port_in_use_is_named_by_a_master(place: Path) -> None:
    with answering(hang_up) as port:
        done = resile(place, "master", "--endpoint", f"127.0.0.1:{port}")
    is_refused(done, FAILURE, f"127.0.0.1:{port} is in use by another program")
    leaves_nothing(place)


@pytest.mark.parametrize(
    ("answer", "said"),
    [(hang_up, "is in use by another program"), (speak_ssh, "is not a Resile master")],
)
def test_a_port_in_use_is_named_by_run(
    place: Path, answer: Callable[[socket.socket], None], said: str
) -> None:
    with answering(answer) as port:
        flags = ["--rdzv-endpoint", f"127.0.0.1:{port}", "--connect-timeout", "0"]
        done = resile(place, "run", *flags, "--preload", "none", SCRIPT)
    is_refused(done, FAILURE, f"127.0.0.1:{port}", said)
    leaves_nothing(place)


def test_a_program_that_hangs_up_is_told_long_before_the_patience_is_over(place: Path) -> None:
    began = time.monotonic()
    with answering(hang_up) as port:
        flags = ["--rdzv-endpoint", f"127.0.0.1:{port}", "--connect-timeout", "600"]
        done = resile(place, "run", *flags, "--preload", "none", SCRIPT)
    is_refused(done, FAILURE, f"127.0.0.1:{port} is in use by another program")
    assert time.monotonic() - began < 100
    leaves_nothing(place)


def test_a_program_that_says_nothing_is_told_and_waited_for(place: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        flags = ["--rdzv-endpoint", f"127.0.0.1:{port}", "--connect-timeout", "6"]
        done = resile(place, "run", *flags, "--preload", "none", SCRIPT)
    assert done.returncode == FAILURE
    first, last = (line for line in done.stderr.splitlines() if "in use by another" in line)
    assert "and it does not answer; retrying" in first
    assert "(tried for " in last
    leaves_nothing(place)


class NotFound(BaseHTTPRequestHandler):
    """A web server that is not a master."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_args: object) -> None:
        """Log nothing."""


def test_a_web_server_is_no_master(place: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), NotFound) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            where = f"127.0.0.1:{server.server_port}"
            done = resile(place, "run", "--rdzv-endpoint", where, "--preload", "none", SCRIPT)
        finally:
            server.shutdown()
            thread.join()
    is_refused(done, FAILURE, where, "is not a Resile master (HTTP 404)")
    leaves_nothing(place)


def test_a_master_that_is_not_there_and_may_not_be_started_is_said_to_be_missing(
    place: Path,
) -> None:
    (place / "token").write_text("0123456789abcdef0123")
    where = f"127.0.0.1:{free_port()}"
    flags = ["--rdzv-endpoint", where, "--connect-timeout", "0.5", "--token-file", "token"]
    done = resile(place, "run", *flags, "--preload", "none", SCRIPT, RESILE_MASTER_KEPT="1")
    is_refused(done, FAILURE, f"no master answers at {where}: Connection refused")
    (place / "token").unlink()
    leaves_nothing(place)
