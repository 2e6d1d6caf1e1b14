"""Take secrets out of text before it is shown or kept.

Two nets: the values that this process knows to be secret, in every spelling in
which they travel, and the shapes of well-known tokens, for those it does not
know. Everything that Pulumi prints and all that we keep of it goes through here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote

SHOWN = "[secret]"
# A shorter value is no secret worth the name, and would be found inside ordinary words.
SHORTEST = 6
# Of a secret of several lines (a key, an account's JSON) each line of this length is one as well:
# what is printed comes to us line by line, and indented.
SHORTEST_LINE = 20


def _word(start: str, rest: str) -> str:
    """Give the shape of a word that begins so.

    That it begins there is asked once its beginning is found, by a plain search: with a boundary in
    front, each pattern would look at each character of megabytes of events.
    """
    return rf"{start}(?<!\w{start}){rest}"


# What stands in group `keep` stays. Sources: each vendor's documentation of its token's prefix.
_SHAPES: tuple[str, ...] = (
    r"(?P<keep>[a-z][a-z0-9+.-]*://[^/\s:@\"'\\]*:)[^/\s@\"'\\]+(?=@)",  # password of a URL
    r"(?P<keep>hooks\.slack\.com/(?:services|workflows)/)[\w/-]+",
    "(?P<keep>" + _word("[Bb]earer", r"\s+)[\w.~+/=-]{8,}"),
    "(?P<keep>" + _word("[Bb]asic", r"\s+)[A-Za-z0-9+/=]{12,}"),
    r"(?P<keep>[?&](?:token|key|secret|password|sig|X-Amz-Signature)=)[^&\s\"'\\]+",
    _word("hf_", r"[A-Za-z0-9]{16,}"),
    _word("nvapi-", r"[\w-]{16,}"),
    _word("dckr_pat_", r"[\w-]{16,}"),
    _word("gh[pousr]_", r"[A-Za-z0-9]{20,}"),
    _word("github_pat_", r"\w{20,}"),
    _word("glpat-", r"[\w-]{16,}"),
    _word("xox[abprs]-", r"[\w-]{10,}"),
    _word("pul-", r"[0-9a-f]{40}\b"),
    _word("A[KS]IA", r"[A-Z0-9]{16}\b"),
    _word("ey", r"[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_-]{10,}\.[\w-]{10,}"),  # a signed web token
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"-]+-----END [A-Z ]*PRIVATE KEY-----",
)
_PATTERNS = tuple(re.compile(shape) for shape in _SHAPES)


@dataclass(frozen=True)
class Redactor:
    """Knows what must not be shown."""

    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def also(self, values: Iterable[str]) -> Redactor:
        """Know more secrets."""
        return Redactor(self.secrets | frozenset(values))

    def text(self, text: str) -> str:
        """Return a text without secrets; JSON stays JSON."""
        if self._known is not None:
            text = self._known.sub(SHOWN, text)
        for pattern in _PATTERNS:
            text = pattern.sub(_shown, text)
        return text

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        forms = {form for secret in self.secrets for form in _spellings(secret)}
        if not forms:
            return None
        longest_first = sorted(forms, key=len, reverse=True)
        return re.compile("|".join(re.escape(form) for form in longest_first))


def _shown(found: re.Match[str]) -> str:
    return (found.groupdict().get("keep") or "") + SHOWN


def _spellings(secret: str) -> Iterator[str]:
    """Spell a secret as it may travel: in JSON, in an address, in base64 inside a longer text."""
    lines = {line.strip() for line in secret.splitlines()} - {secret.strip()}
    long_ones = {line for line in lines if len(line) >= SHORTEST_LINE}
    for value in {secret, secret.strip(), *long_ones}:
        if len(value) < SHORTEST:
            continue
        yield value
        yield json.dumps(value)[1:-1]
        yield quote(value, safe="")
        for before in range(3):  # base64 looks different at each of three offsets
            padded = base64.b64encode(b"\0" * before + value.encode()).decode().rstrip("=")
            skipped = -(-before * 8 // 6)
            whole = (before + len(value.encode())) * 8 // 6  # the last letter holds what follows
            yield padded[skipped:whole]
