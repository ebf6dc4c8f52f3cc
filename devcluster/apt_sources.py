"""This machine's apt entries, turned into entries for source packages. Pure.

Debian's mirrors differ from machine to machine, so none is named here: the entries apt already has
are copied, with `deb-src` in place of `deb`, into a folder that only this build uses.
"""

import re

_TYPES = re.compile(r"^Types:.*$", re.MULTILINE | re.IGNORECASE)
_ONE_LINE = re.compile(r"^\s*deb(-src)?\s", re.IGNORECASE)


def source_entries(name: str, text: str) -> str:
    """Turn a file of apt sources into one for source packages; empty if it has no entries."""
    if name.endswith(".sources"):
        return _TYPES.sub("Types: deb-src", text) if _TYPES.search(text) else ""
    lines = [line.strip() for line in text.splitlines() if _ONE_LINE.match(line)]
    return "".join(f"{line}\n" for line in dict.fromkeys(map(_as_source, lines)))


def _as_source(line: str) -> str:
    return _ONE_LINE.sub("deb-src ", line)
