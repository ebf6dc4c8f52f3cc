"""``resile run``: the launcher, one per node, with torchrun's flags and their meaning."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

import click

from resile.agent.agent import STALLED_CONSOLE, Agent
from resile.agent.config import AgentConfig
from resile.agent.console import Console, ConsoleHandler
from resile.agent.logs import LogRouting, StreamChoice, StreamsError
from resile.agent.master_launcher import MasterLauncher
from resile.agent.nursery import (
    CommandKind,
    Preload,
    PreloadMode,
    PreloadSyntaxError,
    WorkerCommand,
    fallback_modules,
)
from resile.agent.relay import OutputRelay
from resile.cli.commands.preload_check import preload_check
from resile.cli.options.job_token import kept_token
from resile.cli.options.ledger_path import ledger_asked_for
from resile.cli.options.nproc import count_processes
from resile.cli.options.rdzv import Place, build_elasticity, find_place, one_line, parse_conf
from resile.cli.options.torchrun import (
    DEFAULT_SIGNALS,
    EVENT_HANDLERS,
    SHELLS,
    SIGNALS_VARIABLE,
    AbbreviatingCommand,
    check_logs_specs,
    given_but_ignored,
    ignored_options,
    prefix_template,
    print_completion,
    read_signals,
    torchrun_option,
)
from resile.cli.options.types import (
    NODE_RANK,
    NODE_UNIT,
    PORT,
    RESTARTS,
    SECONDS,
    verbosity_options,
)
from resile.cli.output.logging import set_up_logging
from resile.group_name import group_from_environment
from resile.job.elasticity import Elasticity
from resile.job.exits import NodeExitCode
from resile.launch.master_process import KEPT_VARIABLE
from resile.launch.state_dir import StateDirError, remove_run_folder, run_folder
from resile.ledger import FOLDER_VARIABLE
from resile.train.migrate.late_import import LATE_MODULES
from resile.wire.auth import (
    AUTHORITY_VARIABLE,
    TOKEN_FILE_VARIABLE,
    AuthError,
    client_tls,
    given_token,
)
from resile.wire.bounds import is_host
from resile.wire.client import Access
from resile.wire.endpoint import (
    EndpointError,
    address_towards,
    is_this_machine,
)

log = logging.getLogger("resile.agent")


@click.command(
    cls=AbbreviatingCommand,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "allow_interspersed_args": False,
        "max_content_width": 100,
    },
)
@verbosity_options
@torchrun_option(
    "nnodes",
    default="1:1",
    show_default=True,
    metavar="N|MIN:MAX",
    help="Number of nodes, or a range.",
)
@torchrun_option(
    "nproc-per-node",
    default="1",
    show_default=True,
    metavar="N|auto|cpu|gpu|xpu",
    help="Workers per node.",
)
@torchrun_option(
    "rdzv-endpoint",
    default="",
    metavar="HOST:PORT",
    help="Address of the job's master. If it is this machine's, one is started there.",
)
@torchrun_option("rdzv-id", default=None, help="Job name, the same on all nodes.")
@torchrun_option(
    "rdzv-backend",
    default=None,
    metavar="resile|c10d|static",
    help="resile, c10d: rendezvous at --rdzv-endpoint. static: at --master-addr and --master-port.",
)
@torchrun_option(
    "rdzv-conf",
    default="",
    metavar="K=V,...",
    help="Timeouts: last_call, join_timeout, lease, connection_grace, start_timeout, ...",
)
@torchrun_option("standalone", is_flag=True, help="Single-node job with its own master.")
@torchrun_option(
    "max-restarts",
    type=RESTARTS,
    default=3,
    show_default=True,
    help="Restarts of failed workers before the job fails; node losses do not count.",
)
@torchrun_option(
    "node-unit", cls=click.Option, type=NODE_UNIT, help="Train only with a multiple of N nodes."
)
@torchrun_option(
    "node-rank", type=NODE_RANK, help="Rank of this node; assigned by the master if omitted."
)
@torchrun_option("master-addr", default=None, help="MASTER_ADDR of a static job.")
@torchrun_option(
    "master-port",
    type=PORT,
    help="MASTER_PORT of a static job; Resile's master listens 10000 below it.",
)
@torchrun_option("local-addr", default=None, help="Address at which other nodes reach this one.")
@torchrun_option("role", default="default", show_default=True, help="The workers' ROLE_NAME.")
@torchrun_option("module", "-m", is_flag=True, help="SCRIPT is a module, as in python -m.")
@torchrun_option("no-python", is_flag=True, help="SCRIPT is a program, not a Python script.")
@torchrun_option("run-path", is_flag=True, help="Run SCRIPT as a script; overrides --no-python.")
@torchrun_option(
    "log-dir", type=click.Path(path_type=Path), help="Directory for workers' log files."
)
@torchrun_option(
    "redirects", "-r", default="0", help="Streams written to files only: 0, 1, 2, 3, 0:1,1:3."
)
@torchrun_option(
    "tee", "-t", default="0", help="Streams written to console and files, as --redirects."
)
@torchrun_option(
    "local-ranks-filter", default="", help="Show the output of these local ranks only: 0,2."
)
@torchrun_option(
    "log-line-prefix-template",
    default=None,
    metavar="TEXT",
    help="Prefix of console lines: ${role_name}, ${rank}, ${local_rank}, ${hostname}.",
)
@torchrun_option(
    "virtual-local-rank", is_flag=True, help="Each worker has LOCAL_RANK 0 and sees one device."
)
@torchrun_option(
    "signals-to-handle",
    default=DEFAULT_SIGNALS,
    show_default=True,
    metavar="SIG,...",
    help="Signals that stop this node and are passed on to its workers.",
)
@torchrun_option(
    "event-log-handler",
    type=click.Choice(EVENT_HANDLERS),
    default="null",
    show_default=True,
    help="Destination of torch's worker and agent events.",
)
@torchrun_option(
    "print-completion",
    type=click.Choice(SHELLS),
    expose_value=False,
    is_eager=True,
    callback=print_completion,
    help="Print a completion script for this shell and exit.",
)
@torchrun_option("logs-specs", hidden=True, default=None)
@torchrun_option(
    "shutdown-timeout",
    type=SECONDS,
    envvar=["PET_SHUTDOWN_TIMEOUT", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"],
    default=30.0,
    show_default=True,
    help="Seconds from SIGTERM to SIGKILL when the node shuts down.",
)
@click.option(
    "--restart-grace",
    type=SECONDS,
    default=None,
    show_default="--shutdown-timeout for workers that handle SIGTERM, else 1",
    help="The same for workers that are restarted for a new round.",
)
@click.option(
    "--connect-timeout",
    type=SECONDS,
    default=60.0,
    show_default=True,
    help="Seconds to retry the first connection to the master.",
)
@click.option(
    "--preload",
    default="auto",
    show_default=True,
    metavar="auto|none|check|A,B",
    help="Modules to import before workers are forked; check: compare warm and cold starts.",
)
@click.option("--ledger", is_flag=True, help="Record trained samples, for `resile data check ID`.")
@click.option(
    "--token-file", metavar="FILE", help="File with the job's token; default: $RESILE_TOKEN."
)
@click.option("--tls-ca", metavar="FILE", help="Use TLS to the master and trust this CA.")
@ignored_options
@click.argument("script")
@click.argument("script_args", nargs=-1, type=click.UNPROCESSED)
def run(script: str, script_args: tuple[str, ...], **flags: Any) -> None:
    """Run SCRIPT with its arguments on this node, as torchrun does, and keep it training.

    Workers and nodes that die are replaced within a fraction of a second; several `resile run`
    with one endpoint form one job.

    \b
    Examples:
      resile run --nproc-per-node 2 train.py --steps 300
      resile run --nnodes 1:4 --nproc-per-node 8 --rdzv-endpoint 127.0.0.1:29400 train.py
      resile run --standalone --nproc-per-node auto -m mypackage.train
    """
    output = OutputRelay(Console.of_this_process())
    set_up_logging(handler=ConsoleHandler(output.console.err))
    for line in given_but_ignored(flags, os.environ):
        log.warning("%s", line)
    try:
        code = asyncio.run(_run(script, script_args, flags, output))
        for loss in output.losses:
            log.error("%s", loss)
            # A platform that manages the node decides by the exit code how the job continues.
            code = code or (0 if "RESILE_NODE_ID" in os.environ else NodeExitCode.OUTPUT_LOST)
    except (EndpointError, AuthError, StreamsError, PreloadSyntaxError) as error:
        raise click.UsageError(str(error)) from None
    except StateDirError as error:
        raise click.ClickException(str(error)) from None
    finally:
        output.console.err.wait_until_written(STALLED_CONSOLE)
    raise SystemExit(code)


async def _run(
    script: str, script_args: tuple[str, ...], flags: dict[str, Any], output: OutputRelay
) -> int:
    if Preload.parse(flags["preload"]).mode is PreloadMode.CHECK:
        command = _command(script, script_args, flags)
        return await preload_check(command, env={**os.environ, **fallback_modules(LATE_MODULES)})
    conf = parse_conf(flags["rdzv_conf"])
    for name in conf.ignored:
        log.warning("--rdzv-conf %s is ignored: Resile has no such setting", name)
    nnodes = "1:1" if flags["standalone"] else flags["nnodes"]
    elasticity = build_elasticity(
        nnodes, conf, max_restarts=flags["max_restarts"], node_unit=flags["node_unit"]
    )
    command = _command(script, script_args, flags)
    nproc = count_processes(flags["nproc_per_node"])
    about = _about_this_node(flags)
    place = find_place(flags, max_nodes=elasticity.max_nodes)
    folder = run_folder(place.endpoint)
    found, agent = folder.exists(), None
    try:
        access, launcher = _master(place, elasticity, flags)
        config = AgentConfig(
            access=access,
            run_id=place.run_id,
            command=command,
            nproc=nproc,
            elasticity=elasticity,
            address=_local_address(flags["local_addr"]) or address_towards(access.endpoint),
            output=output,
            fixed_store=place.store,
            **about,
        )
        agent = Agent(config, launcher)
        return await agent.run()
    finally:
        if not found and not (agent and agent.ever_joined):
            remove_run_folder(folder)


def _command(script: str, args: tuple[str, ...], flags: dict[str, Any]) -> WorkerCommand:
    if flags["run_path"]:
        flags = {**flags, "no_python": False, "module": False}
    if flags["module"] and flags["no_python"]:
        raise click.UsageError("--module and --no-python exclude each other")
    if flags["no_python"]:
        return WorkerCommand(kind=CommandKind.EXECUTABLE, target=script, args=args)
    python = os.environ.get("PYTHON_EXEC", sys.executable)
    if flags["module"]:
        return WorkerCommand(kind=CommandKind.MODULE, target=script, args=args, python=python)
    if not Path(script).exists():
        raise click.UsageError(f"the script '{script}' does not exist (in {Path.cwd()})")
    return WorkerCommand(kind=CommandKind.SCRIPT, target=script, args=args, python=python)


def _master(
    place: Place, elasticity: Elasticity, flags: dict[str, Any]
) -> tuple[Access, MasterLauncher | None]:
    """Return the access to the master, and its launcher if this process may have to start it."""
    tls = client_tls(flags["tls_ca"] or os.environ.get(AUTHORITY_VARIABLE))
    token = given_token(flags["token_file"])
    ours_to_keep = tls is None and not os.environ.get(KEPT_VARIABLE)
    if ours_to_keep and is_this_machine(place.endpoint.host):
        folder = run_folder(place.endpoint)
        token = token or kept_token(folder)
        launcher = MasterLauncher(
            place.endpoint,
            folder,
            run_id=place.run_id,
            elasticity=None if _group() else elasticity,
            token=token,
        )
        return Access(place.endpoint, token), launcher
    if token is None:
        raise AuthError(
            f"the master at {place.endpoint} requires the job's token: "
            "give --token-file, $RESILE_TOKEN_FILE or $RESILE_TOKEN"
        )
    return Access(place.endpoint, token, tls), None


def _about_this_node(flags: dict[str, Any]) -> dict[str, Any]:
    """Return this node's settings from flags and environment, checked before anything starts."""
    if warning := check_logs_specs(flags["logs_specs"]):
        log.warning("%s", warning)
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    node_rank = flags["node_rank"]
    name = os.environ.get("RESILE_NODE_NAME") or f"{socket.gethostname()}-{os.getpid()}"
    return {
        "name": one_line("$RESILE_NODE_NAME", name),
        "role": one_line("--role", flags["role"]),
        "group": _group(),
        "node_rank": _number_in("RESILE_NODE_RANK") if node_rank is None else node_rank,
        "generation": _number_in("RESILE_NODE_ID"),
        "environment": {**os.environ, **_for_workers(flags)},
        "logs": _logs(flags),
        "preload": Preload.parse(flags["preload"]),
        "virtual_local_rank": flags["virtual_local_rank"],
        "restart_grace": flags["restart_grace"],
        "shutdown_timeout": flags["shutdown_timeout"],
        "signals": read_signals(flags["signals_to_handle"]),
        "event_log_handler": flags["event_log_handler"],
        "connect_timeout": flags["connect_timeout"],
        "error_file": Path(error_file) if error_file else None,
        **_meter(),
    }


def _meter() -> dict[str, Any]:
    """Return the usage meter of an agent in a pod, which reports its own usage; else nothing."""
    from resile.agent.container_usage import IN_A_POD, ContainerMeter

    return {"usage": ContainerMeter.of_this_process().read} if IN_A_POD in os.environ else {}


def _for_workers(flags: dict[str, Any]) -> dict[str, str]:
    """Return the environment variables that pass this node's flags on to its workers."""
    given = {
        TOKEN_FILE_VARIABLE: flags["token_file"],
        AUTHORITY_VARIABLE: flags["tls_ca"],
        FOLDER_VARIABLE: ledger_asked_for(flags),
    }
    paths = {name: str(Path(path).absolute()) for name, path in given.items() if path}
    return {
        **paths,
        SIGNALS_VARIABLE: flags["signals_to_handle"],
        **fallback_modules(LATE_MODULES),
    }


def _local_address(given: str | None) -> str | None:
    if given is not None and not is_host(given):
        raise click.UsageError("--local-addr: must be a host name or address")
    return given


def _group() -> str:
    """Return the group of this node, as set by the platform."""
    try:
        return group_from_environment(os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _number_in(variable: str) -> int | None:
    """Return a number that the platform set in the environment."""
    text = os.environ.get(variable)
    if not text:
        return None
    if not re.fullmatch("[0-9]{1,15}", text):
        raise click.UsageError(f"${variable} is '{text}'; it must be a number of at least 0")
    return int(text)


def _logs(flags: dict[str, Any]) -> LogRouting:
    shown = flags["local_ranks_filter"]
    if shown and not all(re.fullmatch(" *[0-9]{1,9} *", part) for part in shown.split(",")):
        raise click.UsageError(f"--local-ranks-filter {shown}: write ranks such as 0,2")
    return LogRouting(
        folder=flags["log_dir"],
        redirects=StreamChoice.parse(flags["redirects"], flag="--redirects"),
        tee=StreamChoice.parse(flags["tee"], flag="--tee"),
        prefix_template=prefix_template(flags["log_line_prefix_template"]),
        shown_ranks=frozenset(int(part) for part in shown.split(",")) if shown else None,
    )
