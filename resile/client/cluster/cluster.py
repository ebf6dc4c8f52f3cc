"""A cluster, by default the one kubectl would talk to, and its ElasticJobs."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import shlex
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from resile.client.errors import InvalidName, NoSuchJob
from resile.kube.errors import ApiUnreachable, ConfigError, NotFound
from resile.kube.kubeconfig import default_files, existing_files
from resile.kube.resources import ELASTIC_JOBS, KubeObject

if TYPE_CHECKING:
    from resile.kube.client import KubeClient

__all__ = ["HOW_TO_INSTALL", "Cluster", "flags_for", "is_configured", "unknown_kind"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
"""The token of a pod's service account."""

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
LABEL_LENGTH, SUBDOMAIN_LENGTH = 63, 253
"""RFC 1123, as Kubernetes reads it: a namespace is a label, an object's name may have dots."""

HOW_TO_INSTALL = (
    "with 'helm install resile deploy/helm/resile …' or 'kubectl apply -k …', as "
    "docs/kubernetes.md of Resile's sources says"
)

T = TypeVar("T")


def is_configured() -> bool:
    """Return whether kubectl would find a cluster: whether the files exist; they are not read.

    True as well if that cannot be determined: connecting then says what is wrong.
    """
    try:
        return bool(existing_files(default_files())) or SERVICE_ACCOUNT.is_file()
    except (ConfigError, OSError):
        return True


def flags_for(
    *, namespace: str | None = None, context: str | None = None, kubeconfig: str | None = None
) -> str:
    """Return the flags after a job's name in a hint at another command, for it to be found."""
    flags = {"-n": namespace, "--context": context, "--kubeconfig": kubeconfig}
    return "".join(f" {flag} {shlex.quote(text)}" for flag, text in flags.items() if text)


class Cluster:
    """An API server, as one user, in one namespace unless another is requested."""

    def __init__(
        self,
        client: KubeClient,
        *,
        name: str = "",
        asked: Mapping[str, str | None] | None = None,
    ) -> None:
        """``name``: the name shown to users. ``asked``: namespace, context and kubeconfig, as far
        as the user named them."""
        self.client = client
        self.namespace = client.namespace
        self._asked = dict(asked or {})
        self.name = name or client.server

    @classmethod
    def connect(
        cls,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
    ) -> Cluster:
        """Return the cluster that kubectl would talk to, given the same. Nothing is sent yet."""
        # Not at the top: importing aiohttp takes longer than a local command runs.
        from resile.kube.client import KubeClient

        file = None if kubeconfig is None else os.fspath(kubeconfig)
        if namespace:
            _check_namespace(namespace)
        client = KubeClient.connect(kubeconfig=file, context=context, namespace=namespace)
        _check_namespace(client.namespace)
        asked = {"namespace": namespace, "context": context, "kubeconfig": file}
        return cls(client, name=context or "", asked=asked)

    async def jobs(
        self, *, everywhere: bool = False, within: float | None = None
    ) -> list[KubeObject]:
        """Return all jobs of the namespace, or of all, as the API server's objects, sorted by name.

        ``within``: raises ApiUnreachable if there is no answer after so many seconds.
        """
        listing = self.client.list(ELASTIC_JOBS, namespace=None if everywhere else self.namespace)
        try:
            found = await self.hurried(listing, within=within)
        except NotFound as error:
            raise unknown_kind(error) from None
        items = found.items
        return sorted(
            items, key=lambda raw: (raw["metadata"]["namespace"], raw["metadata"]["name"])
        )

    async def job(self, name: str) -> KubeObject:
        """Return one job; raises NoSuchJob, which names the others, or InvalidName."""
        _check_name(name)
        try:
            return await self.client.get(ELASTIC_JOBS, name, self.namespace)
        except NotFound as error:
            if not error.details.get("name"):
                raise unknown_kind(error) from None
        raise await self._no_such_job(name)

    def flags(self, namespace: str) -> str:
        """Return the flags after the name of a job of that namespace in a hint at a command."""
        named = {"namespace": namespace} if namespace != self.namespace else {}
        return flags_for(**{**self._asked, **named})

    async def hurried(self, work: Awaitable[T], *, within: float | None) -> T:
        """Return the answer to a request; raises ApiUnreachable after ``within`` seconds."""
        if within is None:
            return await work
        asking = asyncio.ensure_future(work)
        try:
            await asyncio.wait([asking], timeout=within)
            if asking.done():
                return asking.result()
            raise ApiUnreachable(f"{self.client.awaited} has not answered for {within:g} s")
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.client.aclose()

    async def _no_such_job(self, name: str) -> NoSuchJob:
        others = tuple(raw["metadata"]["name"] for raw in await self.jobs())
        place = f"in namespace {self.namespace} of {self.name}"
        if not others:
            return NoSuchJob(
                f"there is no job '{name}' {place}, nor any other; "
                "start one with 'resile submit job.yaml'",
                place=place,
            )
        close = difflib.get_close_matches(name, others, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        said = f"there is no job '{name}' {place}.{hint} There are: {', '.join(others)}"
        return NoSuchJob(said, place=place, others=others)


def unknown_kind(error: NotFound) -> NotFound:
    """Return the error to raise: a 404 names the missing object or namespace, else the kind is
    unknown."""
    if error.details.get("name"):
        return error
    return NotFound(
        error.status,
        error.reason,
        message="the cluster does not know ElasticJobs; install Resile's operator first, "
        f"{HOW_TO_INSTALL}",
    )


def _check_namespace(name: str) -> None:
    """Refuse an invalid name: it would be part of another path, whose answer would be misread."""
    if len(name) > LABEL_LENGTH or not re.fullmatch(LABEL, name):
        raise InvalidName(
            f"'{name}' cannot be a namespace: its name has at most {LABEL_LENGTH} characters, "
            "small letters, digits and '-', and begins and ends with a letter or a digit"
        )


def _check_name(name: str) -> None:
    if len(name) > SUBDOMAIN_LENGTH or not re.fullmatch(SUBDOMAIN, name):
        raise InvalidName(
            f"'{name}' cannot be a job: its name has at most {SUBDOMAIN_LENGTH} characters, small "
            "letters, digits, '-' and '.', and begins and ends with a letter or a digit"
        )
