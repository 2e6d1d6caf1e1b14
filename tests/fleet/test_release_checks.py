"""What does not go together in a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.engine_flags import engine_version
from fleet.load import load_model, load_release
from fleet.release import Release
from fleet.release_checks import release_problems

K3 = load_model("kimi-k3", beside=Path())
INFERACT, RADIXARK = "Inferact/Kimi-K3-DSpark", "RadixArk/Kimi-K3-DSpark"


def changed(preset: str, **changes: Any) -> Release:
    return Release.model_validate({**load_release(preset, beside=Path()).model_dump(), **changes})


def drafting(preset: str, draft: str, **changes: Any) -> Release:
    speculation = {"method": "dspark", "draft": draft, "revision": "main", "tokens": 7}
    return changed(preset, speculation={**speculation, **changes})


def at(preset: str, version: str, image: str = "house", **changes: Any) -> Release:
    engine = load_release(preset, beside=Path()).engine.model_dump()
    return changed(preset, engine={**engine, "version": version, "image": image}, **changes)


def pools(preset: str, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = load_release(preset, beside=Path()).model_dump()["disaggregation"]
    return {**given, **changes}


CASES = [
    pytest.param(
        changed("trtllm-tep8"),
        "engine.image: there is no public image of trtllm 1.4.0rc4 for it. "
        "Build one and name it: repository:tag@sha256:<64 hex digits>",
        id="no image",
    ),
    pytest.param(
        changed("vllm-tp8", parallelism={"tensor": 10}),
        "parallelism.tensor: 10 ranks do not divide the 96 heads of kimi-k3. "
        "Use one of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96",
        id="heads",
    ),
    pytest.param(
        changed("sglang-tp8", parallelism={"tensor": 96, "expert": 3}),
        "parallelism.expert: 3 ranks do not divide the 896 experts of kimi-k3. "
        "Use a divisor of both",
        id="experts",
    ),
    pytest.param(
        changed("vllm-tp8", parallelism={"tensor": 8, "expert": 4}),
        "parallelism.expert: vllm spreads experts over all 8 ranks or none. Use 1 or 8",
        id="expert ranks",
    ),
    pytest.param(
        at("trtllm-tep8", "1.4.0", kv_dtype="fp8"),
        "kv_dtype: TensorRT-LLM keeps the cache of this model in bfloat16 only. "
        "Write kv_dtype: bfloat16",
        id="fp8 on TensorRT-LLM",
    ),
    pytest.param(
        changed("sglang-tp8", state_interval=0),
        "state_interval: SGLang keeps no states closer than a page of 64 tokens. "
        "Give at least 64, or leave it out for SGLang's default of 256",
        id="states closer than pages",
    ),
    pytest.param(
        drafting("vllm-tp8", "Inferact/Kimi-K2-DSpark"),
        "speculation.draft: 'Inferact/Kimi-K2-DSpark' is no draft of kimi-k3. "
        f"Did you mean '{INFERACT}'? Known: {INFERACT}, {RADIXARK}",
        id="unknown draft",
    ),
    pytest.param(
        drafting("vllm-tp8", RADIXARK),
        f"speculation.draft: {RADIXARK} is made for sglang, not for vllm. Use {INFERACT}",
        id="draft for another engine",
    ),
    pytest.param(
        drafting("sglang-tp8", RADIXARK, method="dflash"),
        f"speculation.method: {RADIXARK} drafts by dspark, not by dflash. Write method: dspark",
        id="method",
    ),
    pytest.param(
        at("vllm-tp8-dcp8-dspark", "0.28.0"),
        "speculation: vLLM 0.28.0 cannot draft with decode_context 8. "
        "Use vLLM 0.29.0 or later, or decode_context: 1",
        id="draft with context ranks",
    ),
    pytest.param(
        drafting("sglang-tp8", RADIXARK, by_concurrency=[{"up_to": 64, "tokens": 7}]),
        "speculation.by_concurrency: sglang drafts the same number of tokens under any load. "
        "Remove it, or use vllm",
        id="schedule on SGLang",
    ),
    pytest.param(
        drafting("vllm-tp8", INFERACT, by_concurrency=[{"up_to": 16, "tokens": 3}]),
        "speculation.by_concurrency: its last row ends at 16 requests, but 256 may run. "
        "Add a row with up_to: 256",
        id="schedule with an open end",
    ),
    pytest.param(
        changed("vllm-pd-2p1d", disaggregation=pools("vllm-pd-2p1d", transfer="mooncake")),
        "disaggregation.transfer: vLLM is only known to send KDA states with nixl. "
        "Write transfer: nixl",
        id="transfer",
    ),
    pytest.param(
        changed(
            "vllm-pd-2p1d",
            disaggregation=pools(
                "vllm-pd-2p1d",
                decode={"replicas": 1, "parallelism": {"tensor": 8, "decode_context": 8}},
            ),
        ),
        "disaggregation: prefill has decode_context 1 and decode 8; vLLM sends rank by rank. "
        "Give both roles the same decode_context",
        id="unequal roles",
    ),
]


@pytest.mark.parametrize(("release", "problem"), CASES)
def test_what_does_not_go_together_is_said(release: Release, problem: str) -> None:
    """Each would be found only by a started engine, or by nobody."""
    found = [
        f"{'.'.join(map(str, path))}: {what}. {fix}"
        for path, what, fix in release_problems(K3, release)
    ]
    assert found == [problem]


def test_dflash_with_attention_data_is_refused() -> None:
    """SGLang's DFlash has no place for more than one attention-data rank."""
    release = drafting("sglang-tp8", RADIXARK, method="dflash")
    split = release.parallelism.model_copy(update={"attention_data": 2})
    found = release_problems(K3, release.model_copy(update={"parallelism": split}))
    assert "DFlash does not work with 2 attention-data ranks" in [what for _, what, _ in found]


def test_sglang_may_split_its_roles_differently() -> None:
    """The public recipe prefills with whole caches and decodes with sharded ones."""
    assert release_problems(K3, changed("sglang-pd-2p1d")) == []


def test_versions_compare_as_numbers() -> None:
    """0.5.9 is older than 0.5.23, and a build of `main` is newer than both."""
    versions = ["0.5.9", "v0.5.23.post1", "0.29.0rc1", "main"]
    assert sorted(versions, key=engine_version) == versions
