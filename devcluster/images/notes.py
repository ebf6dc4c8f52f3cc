"""What was made from what: a small file next to the store, so that losing one loses both."""

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Notes:
    """Per name: the key of the inputs it was made from and the digest it got."""

    path: Path
    made: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Notes":
        """Unreadable notes are no notes: the price is a build."""
        try:
            made = json.loads(path.read_text())
            return cls(path, {name: (key, digest) for name, (key, digest) in made.items()})
        except (OSError, ValueError, AttributeError, TypeError):
            return cls(path)

    def says(self, name: str, *, key: str, digest: str | None) -> bool:
        """Whether ``name`` was made from inputs of this key and is still the same."""
        return self.made.get(name) == (key, digest)

    def note(self, name: str, *, key: str, digest: str) -> None:
        """Remember, at once and whole: a kill in the middle must not leave half a file."""
        self.made[name] = (key, digest)
        draft = self.path.with_suffix(".new")
        draft.write_text(json.dumps(self.made, indent=2) + "\n")
        draft.replace(self.path)
