"""Hold what every engine's command line is written from, and how words are put together.

An engine's file (`engine_vllm.py`, ...) turns a job into the commands of the leader
and of the other nodes; nothing but `engine.py` calls those files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.engine_flags import FIELD_FLAGS, VALUE_SPELLING
from fleet.model import Model
from fleet.release import Release, Role

# Kubernetes fills in `$(NAME)` from the container's own environment, and the LeaderWorkerSet
# controller puts these two there.
RANK = "$(LWS_WORKER_INDEX)"
LEADER = "$(LWS_LEADER_ADDRESS)"
POD_IP = "$(POD_IP)"

WEIGHTS_MOUNT = "/weights"
DRAFT_MOUNT = "/draft"  # the draft model of a speculating release
SETTINGS_MOUNT = "/etc/k3fleet/engine"  # `EngineRole.files`
SYSTEM_PORT = 9090  # Dynamo's health, metrics and self-hosted model card; its own default

# Value of a flag; None: the flag stands alone.
Flags = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRole:
    """The leader of a replica, or one of its other pods."""

    serves: bool  # rank 0: answers requests, is probed, registers with the frontends
    command: tuple[str, ...]
    args: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)  # name -> text, in SETTINGS_MOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineJob:
    """What one replica's engine has to do, and who places its pods.

    `placed_by_operator`: Dynamo's operator adds rank, leader and number of nodes to
    the command line itself, so ours must not have them.
    """

    model: Model
    release: Release  # as its role sees it: `release_for`
    role: Role
    placed_by_operator: bool = False

    @property
    def disaggregated(self) -> bool:
        """Say whether this is one half of a prefill and decode group."""
        return self.role != "aggregated"

    @property
    def publishes_events(self) -> bool:
        """Say whether routers need to know what this role caches.

        Not of decode replicas: requests come to them with their cache, wherever
        they are sent. The public vLLM recipe for K3 has it so as well.
        """
        return self.release.kv_events and self.role != "decode"

    def typed_words(self, **instead: object) -> tuple[str, ...]:
        """Write the flags of the release's typed fields, some with another value."""
        release = self.release
        engine = release.engine.kind
        values: dict[str, object] = {
            "context_tokens": self.model.context_tokens,
            "tensor": release.parallelism.tensor,
            "decode_context": release.parallelism.decode_context,
            **{name: getattr(release, name) for name in FIELD_FLAGS[engine] if name in _OWN_FIELDS},
            **instead,
        }
        spelling = VALUE_SPELLING[engine]
        return words(
            {
                flag: spelling.get(str(values[name]), str(values[name]))
                for name, flag in FIELD_FLAGS[engine].items()
                if values[name] is not None
            }
        )

    def usual_words(self, flags: Flags) -> tuple[str, ...]:
        """Write what a replica needs to work, unless the release says it in its own way."""
        given = {word.partition("=")[0] for word in self.release.args}
        return words({flag: value for flag, value in flags.items() if flag not in given})


_OWN_FIELDS = frozenset(Release.model_fields)


def words(flags: Flags) -> tuple[str, ...]:
    """Write flags and values as words of their own, which is all that the operator reads."""
    return tuple(word for pair in flags.items() for word in pair if word is not None)


def events_config(port: int, **extra: bool) -> str:
    """Describe where the engine publishes which blocks it holds; the KV router listens."""
    config = {"publisher": "zmq", "topic": "kv-events", "endpoint": f"tcp://*:{port}", **extra}
    return json.dumps(config, separators=(",", ":"))
