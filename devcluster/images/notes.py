"""Records of finished builds: a small file beside the store, so that both are lost together."""

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Notes:
    """By image name: the key of the inputs it was built from, and its digest."""

    path: Path
    made: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Notes":
        """Read the file; an unreadable one counts as empty, at the cost of a build."""
        try:
            made = json.loads(path.read_text())
            return cls(path, {name: (key, digest) for name, (key, digest) in made.items()})
        except (OSError, ValueError, AttributeError, TypeError):
            return cls(path)

    def says(self, name: str, *, key: str, digest: str | None) -> bool:
        """Whether ``name`` was built from inputs of this key and has this digest."""
        return self.made.get(name) == (key, digest)

    def note(self, name: str, *, key: str, digest: str) -> None:
        """Record a build atomically: a kill must not leave a partial file."""
        self.made[name] = (key, digest)
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps(self.made, indent=2) + "\n")
        draft.replace(self.path)
