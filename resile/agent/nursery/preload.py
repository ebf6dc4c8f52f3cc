"""The option `--preload`: the modules that a nursery imports ahead of the workers."""

from dataclasses import dataclass
from enum import Enum

from .errors import PreloadSyntaxError


class PreloadMode(Enum):
    """How the modules to preload are chosen."""

    AUTO = "auto"
    NONE = "none"
    CHECK = "check"
    LISTED = "listed"


@dataclass(frozen=True)
class Preload:
    """The choice of modules. `auto`: those that the script imports, found in its text and learned
    from its workers; `none`: nothing, all workers start cold; `check`: compare the two (see
    `check`); or exactly the listed modules."""

    mode: PreloadMode = PreloadMode.AUTO
    modules: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Preload":
        """Parse the value of the flag."""
        text = text.strip()
        if text in (mode.value for mode in PreloadMode if mode is not PreloadMode.LISTED):
            return cls(PreloadMode(text))
        modules = tuple(name.strip() for name in text.split(","))
        for name in modules:
            if not all(part.isidentifier() for part in name.split(".")):
                raise PreloadSyntaxError(
                    f"--preload: {name!r} is not the name of a module; "
                    "expected auto, none, check, or names such as torch,numpy"
                )
        return cls(PreloadMode.LISTED, modules)
