"""Write the table of promises into docs/clouds.md. To write it again:

python tests/support/promises_table.py docs/clouds.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from fleet.clouds import CLOUDS
from fleet.clouds.promises import Promise, promises_of

_START = "<!-- promises: python tests/support/promises_table.py docs/clouds.md -->\n"
_END = "<!-- end of promises -->\n"


def with_table(page: str) -> str:
    """Give the page with the table that the code has."""
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    assert rest, "the page has no place for the table"
    assert after, "the place for the table has no end"
    return f"{before}{_START}\n{_table()}\n{_END}{after}"


def _table() -> str:
    rows = zip(*(promises_of(cloud) for cloud in CLOUDS), strict=True)
    lines = [["", *CLOUDS], ["---"] * (len(CLOUDS) + 1)]
    lines += [[row[0].what, *map(_word, row)] for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _word(promise: Promise) -> str:
    word = "yes" if promise.kept else "no"
    return f"{word}\\*" if promise.unverified else word


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_table(file.read_text(encoding="utf-8")), encoding="utf-8")
