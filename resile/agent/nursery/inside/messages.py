"""The messages between the agent and a nursery process.

They are named tuples: immutable, typed and cheap to import. On the wire each is a JSON list: its
name, then its fields in order (see `frames`). Strings from the operating system may contain
surrogate escapes; JSON's ASCII form preserves them.
"""

from typing import NamedTuple


class Prepare(NamedTuple):
    """The first message to a nursery: the modules to import, and how.

    Attributes:
        environ: the environment in which to import.
        preload: modules to import, in this order. `None`: import nothing and fork no warm worker.
        libraries_only: skip modules that do not belong to the interpreter or to an installed
            package (in `trusted` roots or a site-packages folder).
        trusted: further folders whose modules count as installed.
        awaited: packages that only the script may import, since they may depend on a variable that
            it sets before their import.
        first_path: what the interpreter will put at the front of `sys.path` in a worker, if
            anything: modules found there are the user's own.
        report_fd: a pipe on which workers report what they import, or -1.
        share: the share of a core that importing may use, 1.0 for all of it.
        grace: seconds that processes left in the group of a dead worker have to exit.
    """

    environ: dict[str, str]
    preload: list[str] | None
    libraries_only: bool
    trusted: list[str]
    awaited: list[str]
    first_path: str | None
    report_fd: int
    share: float
    grace: float


class Spawn(NamedTuple):
    """Start a worker. Sent with three descriptors: its stdin, stdout and stderr.

    A worker that cannot be warm runs `argv` instead; `warm` says whether warm is wanted at all,
    `hooked` whether a cold one is a Python that runs our hook.
    """

    request: int
    warm: bool
    argv: list[str]
    environ: dict[str, str]
    cwd: str
    hooked: bool


class OpenStore(NamedTuple):
    """Start the host of one round's store, listening on `port` of `host`; 0 for a free one."""

    request: int
    host: str
    port: int = 0


class HostStore(NamedTuple):
    """From a nursery to its child: serve a store. Sent with its listening socket."""

    host: str
    port: int


class Signal(NamedTuple):
    """Send a signal to a worker and its whole process group, or to a store host."""

    pid: int
    number: int


class Echo(NamedTuple):
    """The output of the imports: every warm worker prints it again, as a fresh one would."""

    stdout: str
    stderr: str


class Importing(NamedTuple):
    """The nursery is about to import this module."""

    name: str


class Ready(NamedTuple):
    """The nursery has imported what it could.

    `unfit` is empty, or says why no worker may be forked from this process; `culprits` are then
    the modules that must not be preloaded, each with what it does, as far as that is known, and
    `awaiting` those that must not be for as long as the package that they import is awaited.
    """

    loaded: list[str]
    passed_over: list[str]
    has_torch: bool
    unfit: str
    culprits: dict[str, str]
    awaiting: dict[str, str]


class Born(NamedTuple):
    """A worker was started. `reason` says why it is cold where warm was wanted."""

    request: int
    pid: int
    warm: bool
    reason: str


class StoreOpened(NamedTuple):
    """A store host was started and its port accepts connections."""

    request: int
    pid: int
    port: int


class Refused(NamedTuple):
    """A request could not be carried out; nothing was started."""

    request: int
    reason: str


class Exited(NamedTuple):
    """A worker or a store host exited. Negative: killed by that signal."""

    pid: int
    returncode: int


Message = (
    Prepare
    | Spawn
    | OpenStore
    | HostStore
    | Signal
    | Echo
    | Importing
    | Ready
    | Born
    | StoreOpened
    | Refused
    | Exited
)

DESCRIPTORS: dict[type[Message], int] = {Spawn: 3, HostStore: 1}
"""The number of descriptors that are sent with a message."""
