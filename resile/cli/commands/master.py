"""``resile master``: run a job's master on its own, for agents started elsewhere."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import click
from click.core import ParameterSource

from resile.cli.options.job_token import kept_token
from resile.cli.options.rdzv import build_elasticity, parse_conf
from resile.cli.options.types import RESTARTS, ROUND, verbosity_options
from resile.cli.output.logging import set_up_logging
from resile.launch.master_process import AFTER_ROUND_VARIABLE, OTHER_JOB_EXIT, PORT_IN_USE_EXIT
from resile.launch.state_dir import StateDirError, private_folder, remove_run_folder
from resile.launch.state_dir import run_folder as folder_of
from resile.master.main import ListenError, MasterConfig, PortTaken, run_master
from resile.master.store.base import Store, StoreError, StoreOfOtherJob
from resile.master.store.sqlite import SqliteStore
from resile.system.prctl import die_with
from resile.wire.auth import AuthError, given_token, server_tls
from resile.wire.endpoint import Endpoint, EndpointError, is_loopback, parse_endpoint

log = logging.getLogger("resile.master")


class OtherJob(click.ClickException):
    """The store belongs to another job; the exit code tells the parent not to retry."""

    exit_code = OTHER_JOB_EXIT


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@verbosity_options
@click.option(
    "--endpoint",
    default="127.0.0.1:29400",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on. Loopback by default; *:PORT is every address.",
)
@click.option("--job", metavar="ID", help="The job's --rdzv-id; default: that of the first agent.")
@click.option(
    "--nnodes", metavar="MIN:MAX", help="Number of nodes; default: that of the first agent."
)
@click.option(
    "--max-restarts",
    type=RESTARTS,
    default=3,
    show_default=True,
    metavar="N",
    help="Restarts of failed workers before the job fails; node losses do not count.",
)
@click.option("--rdzv-conf", default="", metavar="K=V,...", help="Timeouts, as in 'resile run'.")
@click.option("--store", metavar="PATH|URL", help="SQLite file, or etcd://HOST:2379/PREFIX.")
@click.option(
    "--token-file", metavar="FILE", help="File with the job's token; default: $RESILE_TOKEN."
)
@click.option("--tls-cert", metavar="FILE", help="Serve TLS with this certificate.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key, if it is in another file.")
@click.option("--until-done", is_flag=True, help="Exit when the job has ended.")
@click.option(
    "--after-round",
    type=ROUND,
    default=0,
    envvar=AFTER_ROUND_VARIABLE,
    metavar="N",
    help="The job had reached round N; with an empty store, recover from its agents first.",
)
@click.option("--run-folder", hidden=True, type=click.Path(path_type=Path))
@click.option("--job-folder", hidden=True, type=click.Path(path_type=Path))
@click.option("--parent", hidden=True, type=int)
@click.option("--announce-fd", hidden=True, type=int)
def master(
    endpoint: str,
    job: str | None,
    nnodes: str | None,
    max_restarts: int,
    rdzv_conf: str,
    store: str | None,
    token_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    until_done: bool,
    after_round: int,
    run_folder: Path | None,
    job_folder: Path | None,
    parent: int | None,
    announce_fd: int | None,
) -> None:
    """Run a job's master on its own.

    `resile run` starts a master if none listens at the endpoint; use this command to run it apart
    from the nodes. A master that is restarted with the same store continues where it was.

    \b
    Examples:
      resile master --endpoint 127.0.0.1:29400 --nnodes 2:4
      resile run --nnodes 2:4 --rdzv-endpoint 127.0.0.1:29400 train.py
      resile master --endpoint '*:29400' --store etcd://10.0.0.5:2379/jobs/a --tls-cert m.pem
    """
    set_up_logging()
    if parent is not None:
        die_with(parent)
    elasticity = build_elasticity(nnodes or "1", parse_conf(rdzv_conf), max_restarts=max_restarts)
    try:
        where = parse_endpoint(endpoint)
        folder = job_folder or run_folder or folder_of(where)
    except EndpointError as error:
        raise click.UsageError(str(error)) from None
    past = not folder.exists()
    try:
        given, made = given_token(token_file), folder / "token"
        config = MasterConfig(
            job=job if job is not None else ("none" if nnodes else None),
            endpoint=where,
            token=given or kept_token(folder),
            elasticity=elasticity if _were_given("nnodes", "max_restarts", "rdzv_conf") else None,
            tls=server_tls(tls_cert, tls_key),
            until_done=until_done or run_folder is not None,
            after_round=after_round,
        )
        keeping = open_store(store, folder)
        past = _serve(config, keeping, announce_fd, token_at=None if given else made)
    except (AuthError, ListenError, PortTaken, StateDirError, StoreError) as error:
        raise _user_error(error, started_by_agent=announce_fd is not None) from None
    finally:
        if past and job_folder is None:
            remove_run_folder(folder)


def _were_given(*options: str) -> bool:
    """Return whether the user gave any of these options; otherwise the first agent decides."""
    context = click.get_current_context()
    sources = [context.get_parameter_source(option) for option in options]
    return any(source is not ParameterSource.DEFAULT for source in sources)


def _user_error(error: Exception, *, started_by_agent: bool) -> click.ClickException:
    """The exit code tells an agent that started this master what to do."""
    if isinstance(error, AuthError):
        return click.UsageError(str(error))
    if isinstance(error, PortTaken) and started_by_agent:
        return _Taken(str(error))
    if isinstance(error, StoreOfOtherJob):
        return OtherJob(str(error))
    return click.ClickException(str(error))


class _Taken(click.ClickException):
    """The port is in use, reported to the parent process by the exit code."""

    exit_code = PORT_IN_USE_EXIT


def _serve(
    config: MasterConfig, store: Store, announce_fd: int | None, *, token_at: Path | None
) -> bool:
    """Serve the job; returns whether its folder may be removed."""
    if config.tls is None and not is_loopback(config.endpoint.host):
        log.warning("messages are not encrypted; use --tls-cert to enable TLS")
    if token_at is not None:
        click.echo(f"token for agents on this machine: {token_at}")
    return asyncio.run(run_master(config, store, listening=lambda at: _announce(announce_fd, at)))


def open_store(text: str | None, folder: Path) -> Store:
    """Return the store that the user named, or the default beside the token.

    A named store is remembered in ``folder``: an agent that starts this master again after its
    death knows only the folder, and must open the same store.
    """
    note = folder / "store"
    if text is None and note.exists():
        text = note.read_text().strip()
        log.info("using the store %s, as recorded in %s", text, note)
    if text is None:
        return SqliteStore(folder / "master.db")
    if "://" not in text.removeprefix("sqlite://") and not text.startswith(("etcd:", "etcds:")):
        text = str(Path(text.removeprefix("sqlite://")).absolute())
    store = _named_store(text)
    try:
        private_folder(folder)
        note.write_text(f"{text}\n")
    except (OSError, StateDirError) as error:
        log.warning("an agent that restarts this master will not know its store: %s", error)
    return store


def _named_store(text: str) -> Store:
    if text.startswith(("etcd://", "etcds://")):
        from resile.master.store.etcd import EtcdStore

        return EtcdStore.at(text)
    if "://" in text or text.startswith(("etcd:", "etcds:")):
        raise click.UsageError(f"--store {text}: write a path, sqlite://PATH or etcd://HOST:PORT")
    return SqliteStore(Path(text))


def _announce(descriptor: int | None, endpoint: Endpoint) -> None:
    """Report the listening address to the parent process."""
    if descriptor is not None:
        os.write(descriptor, f"{endpoint.host} {endpoint.port}\n".encode())
        os.close(descriptor)
