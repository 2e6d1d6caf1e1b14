"""Question workers behind a frontend during a rollout: mocked ones, and real engines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from fleet.release import Release
from fleet.rollout.answers import Asked
from infra.rollout.endpoint import Endpoint
from infra.rollout.region import Questions
from verify.probe import Worker, probe
from verify.questions import Expected
from verify.smoke import worker_answers


def mocked_questions(model: str, now: Callable[[], datetime]) -> Questions:
    """Give what asks a mocked worker behind a frontend.

    Mocked engines say what their script says, and their cards name no parsers, since Dynamo's
    mocker has none: so neither reasoning nor tool calls come apart from the answer.
    """

    return _questions(model, now, mocked=True)


def engine_questions(model: str, now: Callable[[], datetime]) -> Questions:
    """Give what asks a real engine behind a frontend."""
    return _questions(model, now, mocked=False)


def _questions(model: str, now: Callable[[], datetime], *, mocked: bool) -> Questions:
    def ask(at: Endpoint, worker: str) -> bool:
        return worker_answers(at.url, model, worker, http=at.http)

    def probed(at: Endpoint, worker: str, release: Release) -> Asked:
        expected = Expected(block_tokens=release.block_size, parsed=not mocked)
        asked = Worker(at.url, worker, at.http, scripted=mocked)
        return probe(asked, model, f"{now():%H%M%S%f}", expected)

    return Questions(ask=ask, probe=probed)
