"""Patches to Kubernetes 1.20's source, so that it works when built with a newer Go. Pure.

Go 1.18 changed the runtime function that iterates over a map. The JSON encoder that Kubernetes
vendors (json-iterator, through reflect2 1.0.1) links to that function by name, so it compiles as
before, and the program dies with a segmentation fault as soon as it encodes a map: an API server
at the first custom resource. reflect2 1.0.2 fixed it; these are its changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devcluster.errors import BuildFailed

_REFLECT2 = "vendor/github.com/modern-go/reflect2"


@dataclass(frozen=True)
class Change:
    """A passage of a file and its replacement."""

    before: str
    after: str


REPAIRS: Mapping[str, Sequence[Change]] = {
    f"{_REFLECT2}/unsafe_link.go": (
        Change(
            "func mapiterinit(rtype unsafe.Pointer, m unsafe.Pointer) *hiter\n",
            "func mapiterinit(rtype unsafe.Pointer, m unsafe.Pointer, it *hiter)\n",
        ),
        # The runtime now fills in the caller's iterator, which must be as large as its own.
        Change(
            "\t// rest fields are ignored\n",
            "\tt           unsafe.Pointer\n"
            "\th           unsafe.Pointer\n"
            "\tbuckets     unsafe.Pointer\n"
            "\tbptr        unsafe.Pointer\n"
            "\toverflow    *[]unsafe.Pointer\n"
            "\toldoverflow *[]unsafe.Pointer\n"
            "\tstartBucket uintptr\n"
            "\toffset      uint8\n"
            "\twrapped     bool\n"
            "\tB           uint8\n"
            "\ti           uint8\n"
            "\tbucket      uintptr\n"
            "\tcheckBucket uintptr\n",
        ),
    ),
    f"{_REFLECT2}/unsafe_map.go": (
        Change(
            "\treturn &UnsafeMapIterator{\n"
            "\t\thiter:      mapiterinit(type2.rtype, *(*unsafe.Pointer)(obj)),\n",
            "\tvar it hiter\n"
            "\tmapiterinit(type2.rtype, *(*unsafe.Pointer)(obj), &it)\n"
            "\treturn &UnsafeMapIterator{\n"
            "\t\thiter:      &it,\n",
        ),
    ),
}


def repaired(text: str, changes: Sequence[Change]) -> str:
    """Return the text with every change applied; BuildFailed if a passage is not found once."""
    for change in changes:
        if text.count(change.before) != 1:
            raise BuildFailed(f"the source has no single passage {change.before.strip()!r}")
        text = text.replace(change.before, change.after)
    return text
