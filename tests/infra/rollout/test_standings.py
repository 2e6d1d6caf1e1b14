"""How replicas stand, as their API server has them."""

from __future__ import annotations

from infra.rollout.cluster import worker_ids


def test_a_worker_that_has_let_go_of_all_endpoints_has_no_id() -> None:
    """Dynamo leaves null where the endpoints were; a driver must not fall over it."""
    assert worker_ids({"endpoints": None, "model_cards": {"e": {}}}) == frozenset()
    assert worker_ids({}) == frozenset()
    generate = {"endpoint": "generate", "instance_id": 7}
    assert worker_ids({"endpoints": {"e": generate, "f": {"endpoint": "load"}}}) == {"7"}
