"""Recognise objects that differ in nothing but their own name and rack.

200 racks hold 1,800 replicas, which are a handful of objects, each written many times
with another name. Checking one of each is enough, when the check cannot tell the
names apart. It cannot when names are DNS labels of the same length that hold a dash and
a digit: schemas limit text by length, by character classes that all such labels match,
and by lists of words, none of which is such a label.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from fleet.yaml_document import NodePath
from infra.lint.manifest import RACK, Manifest

_LEAST = 6  # characters: a shorter name could be a part of something else, as in 1e-3
_OWN = re.compile(r"(?=[a-z0-9-]*[0-9])[a-z][a-z0-9]*(?:-[a-z0-9]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """An object as JSON, with stand-ins for what only names it. Equal text, equal verdict."""

    text: str
    own: tuple[tuple[str, str], ...]  # stand-in, and what it stands for

    @classmethod
    def of(cls, manifest: Manifest) -> Alike:
        """Write down an object. Raises ValueError or RecursionError when it contains itself."""
        text = json.dumps(manifest.data, ensure_ascii=False, skipkeys=True, default=str)
        own = []
        for letter, word in (("q", manifest.name), ("z", manifest.labels.get(RACK, ""))):
            if len(word) >= _LEAST and _OWN.fullmatch(word):
                stand_in = letter * len(word)
                text = text.replace(word, stand_in)
                own.append((stand_in, word))
        return cls(text=text, own=tuple(own))

    def data(self) -> object:
        """Return the object, without keys whose value is null: the API server drops them."""
        return json.loads(self.text, object_pairs_hook=_without_nulls)

    def restored(self, text: str) -> str:
        """Put the object's own names back."""
        for stand_in, word in self.own:
            text = text.replace(stand_in, word)
        return text

    def restored_path(self, path: NodePath) -> NodePath:
        """Put the object's own names back into a path."""
        return tuple(self.restored(part) if isinstance(part, str) else part for part in path)


def _without_nulls(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {key: value for key, value in pairs if value is not None}
