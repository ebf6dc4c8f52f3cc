"""Parsing of torchrun's rendezvous flags.

All errors are mistakes of the user and a ``ValueError``: EndpointError, AuthError or
ElasticityError, each with the flag and what would be right.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from torch.distributed.elastic.rendezvous import RendezvousParameters

from resile.job.elasticity import Elasticity
from resile.job.rendezvous_conf import RendezvousConf, elasticity_of, read_conf, read_number
from resile.launch.state_dir import run_folder
from resile.wire.auth import (
    AUTHORITY_VARIABLE,
    AuthError,
    client_tls,
    given_token,
    shared_token,
)
from resile.wire.client import Access
from resile.wire.endpoint import (
    Endpoint,
    EndpointError,
    address_towards,
    is_this_machine,
    parse_endpoint,
)

log = logging.getLogger("resile.rendezvous")

TORCHRUN_TIMEOUT = 900
"""torchrun adds ``timeout=900`` (a number, where a user's is text) when the user set none."""

CONNECT_TIMEOUT = 60.0
"""Timeout in seconds for the first connection to the master, as in ``resile run``."""


@dataclass(frozen=True)
class Settings:
    """All the flags together."""

    access: Access
    run_id: str
    address: str
    """The address at which other nodes reach this one."""

    nnodes: tuple[int, int]
    conf: RendezvousConf
    connect_timeout: float
    rank: int | None
    generation: int | None
    """The node's id from the platform that started it, if there is one."""

    def elasticity(self, max_restarts: int) -> Elasticity:
        """Sizes and timeouts; ``max_restarts`` is known only to torchrun's agent."""
        return elasticity_of(self.conf, self.nnodes, max_restarts=max_restarts)


def read_settings(parameters: RendezvousParameters) -> Settings:
    """Read the flags, and check all that can be checked before connecting to the master."""
    pairs = {key: str(value) for key, value in parameters.config.items()}
    if parameters.config.get("timeout") == TORCHRUN_TIMEOUT:
        del pairs["timeout"]
    token_file = pairs.pop("token_file", None)
    authority = pairs.pop("tls_ca", None) or os.environ.get(AUTHORITY_VARIABLE)
    connect_timeout = read_number(
        "connect_timeout", pairs.pop("connect_timeout", str(CONNECT_TIMEOUT))
    )
    conf = read_conf(pairs)
    for name in conf.ignored:
        log.warning("--rdzv-conf %s is ignored: Resile has no such setting", name)
    if not parameters.endpoint:
        raise EndpointError(
            "--rdzv-endpoint is missing: set it to the HOST:PORT of 'resile master'"
        )
    endpoint = parse_endpoint(parameters.endpoint)
    access = Access(endpoint, _token(endpoint, token_file, authority), client_tls(authority))
    settings = Settings(
        access=access,
        run_id=parameters.run_id,
        address=parameters.local_addr or address_towards(endpoint),
        nnodes=(parameters.min_nodes, parameters.max_nodes),
        conf=conf,
        connect_timeout=connect_timeout,
        rank=_number_in("RESILE_NODE_RANK"),
        generation=_number_in("RESILE_NODE_ID"),
    )
    settings.elasticity(max_restarts=0)
    return settings


def _number_in(variable: str) -> int | None:
    text = os.environ.get(variable)
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(f"${variable} is '{text}'; it must be a number of at least 0")
    return int(text)


def _token(endpoint: Endpoint, token_file: str | None, authority: str | None) -> str:
    """The token the user set, or the one in the folder of this user's master on this machine."""
    if token := given_token(token_file):
        return token
    if authority is None and is_this_machine(endpoint.host):
        return shared_token(run_folder(endpoint) / "token")
    raise AuthError(
        f"the master at {endpoint} requires the job's token: set --rdzv-conf token_file=FILE, "
        "$RESILE_TOKEN_FILE or $RESILE_TOKEN"
    )
