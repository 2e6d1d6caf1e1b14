"""Share the sessions of a region among the sets of releases that serve there.

Pure. A gateway takes a session's hash modulo TOTAL_WEIGHT and goes through its clusters in the
order of their names, each with a weight: the first that the hash falls into gets the session. So
a session is with exactly one set on every gateway, and while two sets serve and the one only
grows, it changes its set once at most. What goes to other regions lies behind the first set:
taking it from both leaves the sessions that stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.traffic_shift import TOTAL_WEIGHT

Shares = Mapping[str, int]  # set, or its cluster -> part of TOTAL_WEIGHT


def shares_of(serving: Mapping[str, int]) -> Shares:
    """Share all sessions by how many replicas of each set serve; without any, nothing is said.

    A set that serves has one part at least, one that does not has none.
    """
    total = sum(serving.values())
    if not total:
        return {}
    left = sum(1 for count in serving.values() if count)
    shares, upto, counted, given = {}, 0, 0, 0
    for name in sorted(serving):
        counted += serving[name]
        if serving[name]:
            given, left = given + 1, left - 1
            end = min(max(round(TOTAL_WEIGHT * counted / total), given), TOTAL_WEIGHT - left)
        else:
            end = upto
        shares[name], upto = end - upto, end
    return shares


def never_less(shares: Shares, before: Shares, growing: str) -> Shares:
    """Keep what was before where the set that grows would lose sessions that it has."""
    grows = shares.get(growing, 0) >= before.get(growing, 0)
    return shares if grows or not shares.get(growing) else before


def beside(shares: Shares, elsewhere: int) -> Shares:
    """Say what weight each set has beside what goes to other regions; all is TOTAL_WEIGHT."""
    here = TOTAL_WEIGHT - elsewhere
    weights, upto, counted = {}, 0, 0
    for name in sorted(shares):
        counted += shares[name]
        end = here * counted // TOTAL_WEIGHT
        weights[name], upto = end - upto, end
    return weights
