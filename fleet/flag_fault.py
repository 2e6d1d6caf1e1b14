"""Say what can be wrong with a command line or a variable."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal[
    "unknown",  # no version of any engine has the flag
    "version",  # another version has the flag, the choice or the key
    "choice",
    "type",  # also: no value, or one too many
    "key",  # of a JSON value
    "deprecated",
    "spelling",  # another engine's flag
    "env_version",  # a variable that other versions read
    "env_unknown",  # a variable that nothing reads
    "scope",  # a flag of another program of the same family
    "abbreviation",
    "twice",
    "pair",  # flags that do not go together
    "left",  # a word that belongs to no flag
]


class Fault(NamedTuple):
    """One thing that is wrong."""

    kind: Kind
    place: int | None  # the number of the word; None: a variable
    subject: str  # the flag, with the key of its value; or the variable
    what: str
    fix: str
    certain: bool = True  # False: it may work, for example with a plugin
