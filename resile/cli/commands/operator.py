"""``resile operator``: reconcile the ElasticJobs of a cluster."""

from __future__ import annotations

import asyncio
import os
import socket

import click

from resile.cli.options.types import verbosity_options
from resile.cli.output.logging import set_up_logging
from resile.wire.endpoint import EndpointError, parse_endpoint

IMAGE_VARIABLE = "RESILE_IMAGE"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@verbosity_options
@click.option(
    "--image",
    envvar=IMAGE_VARIABLE,
    metavar="IMAGE",
    help=f"Image of the masters of jobs that name none. Default in a pod: the pod's own image. "
    f"[env: {IMAGE_VARIABLE}]",
)
@click.option("--namespace", "-n", metavar="NS", help="Watch the jobs of one namespace only.")
@click.option(
    "--context", metavar="NAME", help="Context of the kubeconfig; default: the current one."
)
@click.option(
    "--kubeconfig", metavar="FILE", help="Default: as for kubectl, or the pod's service account."
)
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    help="Serve /metrics, /healthz and /readyz here. Loopback by default; *:PORT is every address.",
)
@click.option(
    "--elect/--no-elect",
    default=True,
    show_default=True,
    help="Use leader election (a Lease), so that several replicas can run.",
)
@click.option(
    "--lease-namespace",
    metavar="NS",
    help="Namespace of the Lease. [default: the context's, or the pod's]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    metavar="N",
    help="Number of jobs reconciled concurrently.",
)
@click.option("--log-json", is_flag=True, help="Log one JSON object per line.")
def operator(
    image: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    listen: str,
    elect: bool,
    lease_namespace: str | None,
    workers: int,
    log_json: bool,
) -> None:
    """Reconcile the ElasticJobs of a cluster: create their pods, replace failed ones, report why.

    The operator may be killed and restarted at any time. Several replicas may run: one is the
    leader, the others stand by.

    \b
    Examples:
      resile operator --image registry.example/resile:1
      resile operator --image 127.0.0.1:5000/resile:dev --no-elect -n default
    """
    try:
        from resile.kube.errors import KubeError
        from resile.operator.context import OperatorOptions, OperatorSettings
        from resile.operator.main import NoImage, own_pod, run_operator
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise click.ClickException(
            "the operator needs cryptography: pip install 'resile[kubernetes]'"
        ) from None
    set_up_logging(json=log_json)
    try:
        options = OperatorOptions(
            settings=OperatorSettings(namespace=namespace, workers=workers),
            image=image,
            pod=own_pod(),
            kubeconfig=kubeconfig,
            context=context,
            listen=parse_endpoint(listen),
            elect=elect,
            lease_namespace=lease_namespace,
            identity=f"{socket.gethostname()}-{os.getpid()}",
        )
        asyncio.run(run_operator(options))
    except (EndpointError, NoImage) as error:
        raise click.UsageError(str(error)) from None
    except KubeError as error:
        raise click.ClickException(str(error)) from None
