"""What the parts of a region's node agent share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lightkube import Client

from lab.agent_settings import AgentSettings
from lab.events import EventLog
from lab.mounts import Mounts
from lab.pods import PodStore, PodView
from lab.processes import Launcher


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """What all pod runners of a region share."""

    settings: AgentSettings
    client: Client
    store: PodStore
    mounts: Mounts
    launcher: Launcher
    events: EventLog
    kubeconfig_for: Callable[[PodView], Path]
    stop: threading.Event
