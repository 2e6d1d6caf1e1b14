"""Check flags that are legal alone and refused, or harmful, together.

Each rule says for which programs and versions it holds, and who says so. A value that
is only known when the pod runs decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fleet.engine_flags import engine_version
from fleet.flag_fault import Fault
from fleet.flag_target import PROGRAM_ENGINES, TRTLLM_SETTINGS, Candidate, Target
from fleet.flag_words import Use
from fleet.given_flags import GivenFlags
from fleet.units import whole_number

Version = tuple[int, ...]
_OLDEST: Version = ()
_NEWEST: Version = (10**6,)
# Tokens of one block of Kimi K3's hybrid cache with fp8 keys and 8 ranks (vLLM recipes#861);
# a retention interval that is no multiple of it ends the start (InferenceX#2374).
_K3_BLOCK_TOKENS = 1536


class Conflict(NamedTuple):
    """Two flags that do not go together."""

    flag: str  # the one to look at
    what: str
    fix: str


Check = Callable[[GivenFlags], Conflict | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRule:
    """Flags that do not go together, in some versions of the engine or of Dynamo."""

    programs: frozenset[str]
    check: Check
    since: Version = _OLDEST
    until: Version = _NEWEST  # the first version where it no longer holds


def pair_faults(
    target: Target,
    candidate: Candidate,
    uses: Sequence[Use],
    env: Sequence[tuple[str, str | None]],
) -> Iterator[Fault]:
    """Yield the conflicts between flags of one line."""
    given = GivenFlags(uses, env)
    version = _version(target, candidate)
    for rule in PAIR_RULES:
        if target.program not in rule.programs or not rule.since <= version < rule.until:
            continue
        conflict = rule.check(given)
        if conflict is not None:
            flag, what, fix = conflict
            index = next((use.index for use in uses if use.flag and flag in use.flag.names), None)
            yield Fault("pair", index, f"{flag} {rule.check.__name__}", what, fix)


def _version(target: Target, candidate: Candidate) -> Version:
    """Give the version that decides: the one in the image, else the candidate's."""
    wraps = PROGRAM_ENGINES[target.program] is None
    part, table = (target.dynamo, candidate.dynamo) if wraps else (target.engine, candidate.engine)
    if part is not None and part.version is not None:
        return engine_version(part.version)
    return engine_version(table.version) if table is not None else _NEWEST


# vLLM
_VLLM = frozenset({"vllm", "dynamo.vllm"})
_TP = ("--tensor-parallel-size",)
_DCP = ("--decode-context-parallel-size",)


def _dspark_with_pipeline(line: GivenFlags) -> Conflict | None:
    """From 0.30.0 the check is per model, and K3 supports it (facts of the wheels)."""
    method = str(line.keys("--speculative-config").get("method", "")).lower()
    stages = line.number("--pipeline-parallel-size", default=1)
    if method != "dspark" or stages is None or stages < 2:
        return None
    what = f"DSpark with {stages} pipeline stages ends the start before vLLM 0.30.0"
    return Conflict("--speculative-config", what, "Use tensor parallelism, or drop the draft")


def _context_divides_tensor(line: GivenFlags) -> Conflict | None:
    ranks, context = line.number(*_TP, default=1), line.number(*_DCP, default=1)
    if not ranks or not context or ranks % context == 0:
        return None
    what = f"{ranks} tensor-parallel ranks cannot be split into groups of {context}"
    return Conflict(_DCP[0], what, "Choose a divisor of --tensor-parallel-size")


def _headless_serves_nothing(line: GivenFlags) -> Conflict | None:
    servers = line.number("--api-server-count", default=0)
    if not line.has("--headless") or not servers:
        return None
    what = f"--headless starts no API server, --api-server-count asks for {servers}"
    return Conflict("--api-server-count", what, "Drop --api-server-count")


def _tool_choice_needs_parser(line: GivenFlags) -> Conflict | None:
    if not line.has("--enable-auto-tool-choice") or line.has("--tool-call-parser"):
        return None
    what = "--enable-auto-tool-choice without --tool-call-parser ends the start"
    return Conflict("--enable-auto-tool-choice", what, "Add --tool-call-parser kimi_k3")


def _batch_holds_sequences(line: GivenFlags) -> Conflict | None:
    flag = "--max-num-batched-tokens"
    tokens, sequences = line.number(flag, default=0), line.number("--max-num-seqs", default=0)
    if not tokens or not sequences or tokens >= sequences:
        return None
    what = f"a batch of {tokens} tokens is smaller than --max-num-seqs {sequences}"
    return Conflict(flag, what, "Raise it, or lower --max-num-seqs")


def _interval_of_blocks(line: GivenFlags) -> Conflict | None:
    """Holds where the block is known: fp8 keys, 8 ranks, no block size of one's own."""
    flag, variable = "--prefix-cache-retention-interval", "VLLM_PREFIX_CACHE_RETENTION_INTERVAL"
    given = line.has(flag)
    text = line.text(flag) if given else dict(line.env).get(variable)
    usual = (
        line.text("--kv-cache-dtype") == "fp8"
        and line.text(*_TP) == "8"
        and not line.has("--block-size", "--mamba-block-size")
    )
    interval = whole_number(text)
    if not usual or interval is None or interval % _K3_BLOCK_TOKENS == 0:
        return None
    what = f"retention interval {text} is no multiple of the block of {_K3_BLOCK_TOKENS} tokens"
    where = flag if given else variable
    return Conflict(where, what, f"Use 0, or a multiple of {_K3_BLOCK_TOKENS}")


# SGLang
_SGLANG = frozenset({"sglang", "dynamo.sglang"})
_DRAFT = "--speculative-algorithm"
_A2A_FOR_DSPARK = frozenset({"none", "megamoe", "mori"})


def _attention_copies(line: GivenFlags) -> int | None:
    """Return the copies of attention data parallelism, None when nobody can know."""
    if line.has("--attn-dp-size"):
        return line.number("--attn-dp-size", default=1)
    if line.has("--enable-dp-attention"):
        return line.number("--dp-size", default=1)
    return 1


def _exchange_needs_context(line: GivenFlags) -> Conflict | None:
    backend = line.text("--dcp-comm-backend")
    if backend not in ("a2a", "fi_a2a") or line.number("--dcp-size", default=1) != 1:
        return None
    what = f"--dcp-comm-backend {backend} with --dcp-size 1 ends the start"
    return Conflict("--dcp-comm-backend", what, "Drop it, or raise --dcp-size")


def _dspark_with_attention_copies(line: GivenFlags) -> Conflict | None:
    copies = _attention_copies(line)
    if line.text(_DRAFT) != "DSPARK" or copies is None or copies < 2:
        return None
    if not line.has("--enable-dp-lm-head"):
        what = "DSPARK with data-parallel attention needs --enable-dp-lm-head"
        return Conflict(_DRAFT, what, "Add --enable-dp-lm-head")
    given = line.has("--moe-a2a-backend")
    backend = line.text("--moe-a2a-backend") if given else "none"
    if backend is None or backend in _A2A_FOR_DSPARK:
        return None
    what = f"DSPARK with data-parallel attention does not run with --moe-a2a-backend {backend}"
    return Conflict("--moe-a2a-backend", what, "Use none, megamoe or mori")


def _dflash_without_pipeline(line: GivenFlags) -> Conflict | None:
    stages = line.number("--pp-size", default=1)
    if line.text(_DRAFT) != "DFLASH" or stages is None or stages < 2:
        return None
    what = f"DFLASH does not run with {stages} pipeline stages"
    return Conflict(_DRAFT, what, "Set --pp-size 1, or drop the draft")


def _storage_without_context(line: GivenFlags) -> Conflict | None:
    groups = line.number("--dcp-size", default=1)
    if not line.has("--hicache-storage-backend") or groups is None or groups < 2:
        return None
    what = "--hicache-storage-backend with --dcp-size over 1 is refused before SGLang 0.5.23"
    return Conflict("--hicache-storage-backend", what, "Drop the storage tier, or set --dcp-size 1")


# Dynamo
def _one_indexer(line: GivenFlags) -> Conflict | None:
    if not line.has("--serve-indexer") or not line.has("--use-remote-indexer"):
        return None
    what = "--serve-indexer and --use-remote-indexer exclude each other"
    return Conflict("--serve-indexer", what, "Keep one of them")


def _one_way_of_settings(line: GivenFlags) -> Conflict | None:
    settings = [use.name for use in line.uses if use.name.startswith(TRTLLM_SETTINGS)]
    if not settings or not line.has("--override-engine-args"):
        return None
    what = f"--override-engine-args and {settings[0]} exclude each other"
    return Conflict("--override-engine-args", what, "Give all settings in one of the two ways")


# Read in the engines' own checks (`__post_init__`, argument hooks) of the published wheels.
PAIR_RULES: tuple[PairRule, ...] = (
    PairRule(programs=_VLLM, check=_dspark_with_pipeline, until=(0, 30)),
    PairRule(programs=_VLLM, check=_context_divides_tensor),
    PairRule(programs=_VLLM, check=_batch_holds_sequences),
    PairRule(programs=frozenset({"vllm"}), check=_headless_serves_nothing),
    PairRule(programs=frozenset({"vllm"}), check=_tool_choice_needs_parser),
    PairRule(programs=_VLLM, check=_interval_of_blocks),
    PairRule(programs=_SGLANG, check=_exchange_needs_context, since=(0, 5, 18)),
    PairRule(programs=_SGLANG, check=_dspark_with_attention_copies),
    PairRule(programs=_SGLANG, check=_dflash_without_pipeline),
    PairRule(programs=_SGLANG, check=_storage_without_context, until=(0, 5, 22)),
    PairRule(programs=frozenset({"dynamo.trtllm"}), check=_one_way_of_settings),
    PairRule(
        programs=frozenset({"dynamo.frontend", "dynamo.vllm", "dynamo.sglang", "dynamo.mocker"}),
        check=_one_indexer,
    ),
)
