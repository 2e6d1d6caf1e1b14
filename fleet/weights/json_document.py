"""Read JSON that somebody else wrote, at a price that is known beforehand.

Refused: more bytes than asked for, numbers longer than 18 digits, fractions, keys given twice
(of which plain readers keep the last) and nesting that would take the reader's stack.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from fleet.errors import Problem
from fleet.schema import found_text
from fleet.yaml_document import Document

MAX_DIGITS = 18  # 2^63 has 19; the largest object has 13
_FIX = "Have it written anew by `k3fleet weights sync`, or restore an older version of it"


def read_json(content: bytes, where: str, max_bytes: int) -> Document:
    """Read a document; whatever is wrong with it becomes its problem, never an exception."""
    if len(content) > max_bytes:
        return _broken(where, f"has more than {max_bytes} bytes")
    try:
        data = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=_whole,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except UnicodeDecodeError:
        return _broken(where, "is not UTF-8")
    except RecursionError:
        return _broken(where, "is nested too deeply")
    except _RefusedError as error:
        return _broken(where, str(error))
    except ValueError:
        return _broken(where, "is no JSON")
    return Document(file=where, data=data, lines={}, problems=(), broken=frozenset())


class _RefusedError(Exception):
    """Something in a document that is JSON and still not accepted."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise _RefusedError(f"has the key {found_text(twice)} twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _RefusedError(f"has a number of {len(digits)} digits")
    return int(digits)


def _no_number(text: str) -> object:
    raise _RefusedError(f"has {found_text(text)} where a whole number belongs")


def _broken(where: str, what: str) -> Document:
    problem = Problem(file=where, line=None, path="", what=what, fix=_FIX)
    return Document(file=where, data=None, lines={}, problems=(problem,), broken=frozenset({()}))
