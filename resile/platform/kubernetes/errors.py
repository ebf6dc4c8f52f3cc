"""What can go wrong between us and a Kubernetes API server.

KubeError
├── ConfigError        the kubeconfig is not right; the sentence says what would be
├── Unreachable        no answer from the API server (yet)
└── ApiError           it answered, and said no
    ├── NotFound       404: no such object, or no such kind of object
    ├── AlreadyExists  409: an object of that name is there
    ├── Conflict       409: somebody else changed it meanwhile, or owns the field
    ├── Gone           410: that resourceVersion is compacted away; list again
    ├── Forbidden      403: we may not
    └── Invalid        422: the object is not acceptable; the message names the field

Nothing of the libraries underneath is ever raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resile.decoding import DecodeError, decode_json

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ConfigError",
    "Conflict",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeError",
    "NotFound",
    "Unreachable",
    "refusal",
    "refusal_of",
    "refuses_the_object",
]


class KubeError(Exception):
    """Base of all errors of the Kubernetes side."""


class ConfigError(KubeError):
    """How to reach the cluster is not, or wrongly, configured."""


class Unreachable(KubeError):
    """The API server did not answer, or hung up in the middle."""


class ApiError(KubeError):
    """The API server answered with a refusal: its HTTP status, reason, sentence and details."""

    def __init__(
        self, status: int, reason: str, *, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = dict(details or {})


class NotFound(ApiError):
    """There is no such object. For a custom kind: or nobody defined the kind."""


class AlreadyExists(ApiError):
    """An object of that name is there already."""


class Conflict(ApiError):
    """The object is not any more what the writer thought, or another owner holds the field."""


class Gone(ApiError):
    """The history asked for is compacted away."""


class Forbidden(ApiError):
    """The permissions of this account do not allow it, or an admission check refused it."""


class Invalid(ApiError):
    """The object breaks a rule of its kind."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths of the fields that are wrong, as far as the server tells them apart."""
        return tuple(cause["field"] for cause in self.details.get("causes", ()) if "field" in cause)


_THE_OBJECTS_FAULT = frozenset({400, 413, 422})
_WEBHOOK = "admission webhook"


def refuses_the_object(error: Exception) -> bool:
    """Whether the API server will never take the object as it is: it cannot be read, is too large
    or breaks a rule of its kind. What a webhook says may change with the webhook."""
    final = isinstance(error, ApiError) and error.status in _THE_OBJECTS_FAULT
    return final and _WEBHOOK not in str(error)


_BY_STATUS: Mapping[int, type[ApiError]] = {
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}


def refusal(status: int, body: bytes) -> ApiError:
    """What a refusing answer means. Whatever stands between may answer with other than JSON."""
    try:
        told = decode_json(body, dict[str, Any])
    except DecodeError:
        told = {"message": body.decode(errors="replace").strip()[:500]}
    return refusal_of({**told, "code": status})


def refusal_of(told: Mapping[str, Any]) -> ApiError:
    """The error that a ``Status`` object stands for."""
    status = int(told.get("code") or 500)
    reason = str(told.get("reason") or "")
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, ApiError)
    message = str(told.get("message") or reason or f"HTTP {status}")
    return kind(status, reason, message=message, details=told.get("details"))
