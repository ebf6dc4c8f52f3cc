"""The errors of the Kubernetes client.

KubeError
├── ConfigError        the kubeconfig is wrong; the message says what would be right
├── ApiUnreachable     no answer from the API server (yet)
└── ApiError           the API server rejected the request
    ├── NotFound       404: no such object, or no such kind of object
    ├── AlreadyExists  409: an object of that name exists
    ├── Conflict       409: the object was changed concurrently, or another owner has the field
    ├── Gone           410: that resourceVersion is compacted away; list again
    ├── Forbidden      403: not permitted
    └── Invalid        422: the object is invalid; the message names the field

Errors of the libraries underneath are never raised.
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
    "ApiUnreachable",
    "error_from_response",
    "error_from_status",
    "rejects_object",
]


class KubeError(Exception):
    """Base of all errors of the Kubernetes side."""


class ConfigError(KubeError):
    """The configuration of the cluster is missing or wrong."""


class ApiUnreachable(KubeError):
    """The API server did not answer, or closed the connection."""


class ApiError(KubeError):
    """The API server rejected a request: HTTP status, reason, message and details."""

    def __init__(
        self, status: int, reason: str, *, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = dict(details or {})


class NotFound(ApiError):
    """There is no such object; for a custom kind, perhaps no such CustomResourceDefinition."""


class AlreadyExists(ApiError):
    """An object of that name exists already."""


class Conflict(ApiError):
    """The object has changed since it was read, or another owner holds the field."""


class Gone(ApiError):
    """The requested history is compacted away."""


class Forbidden(ApiError):
    """The permissions of this account do not allow it, or an admission check rejected it."""


class Invalid(ApiError):
    """The object violates a rule of its kind."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths of the invalid fields, as far as the server reports them."""
        return tuple(cause["field"] for cause in self.details.get("causes", ()) if "field" in cause)


_THE_OBJECTS_FAULT = frozenset({400, 413, 422})
_WEBHOOK = "admission webhook"


def rejects_object(error: Exception) -> bool:
    """Return whether the API server will never accept the object as it is: it cannot be decoded, is
    too large or violates a rule of its kind. A webhook's verdict may change with the webhook."""
    final = isinstance(error, ApiError) and error.status in _THE_OBJECTS_FAULT
    return final and _WEBHOOK not in str(error)


_BY_STATUS: Mapping[int, type[ApiError]] = {
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}


def error_from_response(status: int, body: bytes) -> ApiError:
    """Return the error for a response. A proxy in between may answer with something but JSON."""
    try:
        fields = decode_json(body, dict[str, Any])
    except DecodeError:
        fields = {"message": body.decode(errors="replace").strip()[:500]}
    return error_from_status({**fields, "code": status})


def error_from_status(fields: Mapping[str, Any]) -> ApiError:
    """Return the error that a ``Status`` object stands for."""
    status = int(fields.get("code") or 500)
    reason = str(fields.get("reason") or "")
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, ApiError)
    message = str(fields.get("message") or reason or f"HTTP {status}")
    return kind(status, reason, message=message, details=fields.get("details"))
