"""Tell how many prompt tokens the prefix cache could have served.

Attainable = the longest prefix that this run already sent and saw completed in the same region,
in whole blocks, with a cache that never evicts. One token always has to be computed, so the
identical prompt of P tokens again can have floor((P-1)/B)*B, and the next turn of a conversation
floor(P_before/B)*B: exact for Dynamo's mocker, checked against its `cached_tokens`.

Generated tokens never count: a mocked engine answers at random and the history carries our own
scripted text instead of the reply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from loadtest.prompts import Prompt


class CacheOracle:
    """Remember the blocks of each region: how often sent, and whether once completed."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._sent: defaultdict[str, dict[bytes, int]] = defaultdict(dict)
        self._completed: defaultdict[str, set[bytes]] = defaultdict(set)

    def send(self, region: str, prompt: Prompt) -> int:
        """Note that the prompt leaves now; return its attainable tokens."""
        completed = self._completed[region]
        attainable = self._prefix(prompt, lambda block: block in completed)
        sent = self._sent[region]
        for block in prompt.blocks:
            sent[block] = sent.get(block, 0) + 1
        return attainable

    def complete(self, region: str, prompt: Prompt) -> None:
        """Note that the prompt was answered in full, so that its blocks may be reused."""
        self._completed[region].update(prompt.blocks)

    def in_flight(self, region: str, prompt: Prompt) -> int:
        """Tell the prefix that others sent too, answered or not.

        An engine may share the blocks of a request that still runs. Nobody can promise that, so
        it is not attainable; but when the server reports more than attainable, up to this many
        tokens have an explanation and the oracle is not wrong.
        """
        sent, completed = self._sent[region], self._completed[region]
        return self._prefix(prompt, lambda block: block in completed or sent.get(block, 0) > 1)

    def _prefix(self, prompt: Prompt, known: Callable[[bytes], bool]) -> int:
        reusable = 0
        for block in prompt.blocks:
            if not known(block):
                break
            reusable += 1
        most = (prompt.token_count - 1) // self._block_size
        return max(0, min(reusable, most)) * self._block_size
