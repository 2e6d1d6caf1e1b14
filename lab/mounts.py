"""Keep the ConfigMaps and Secrets that pods mount as the API server has them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any

import httpx2
from lightkube import Client
from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import ConfigMap, Secret

from lab.api import plain
from lab.log import log
from lab.pods import RELIST_PAUSE_S, WATCH_TIMEOUT_S
from lab.volumes import Kind, Volume, files_of, show

# Until a process has heard of a change: far above what the watch takes.
MOUNTED_S = 2.0
_KINDS: Mapping[Kind, type[ConfigMap] | type[Secret]] = {"ConfigMap": ConfigMap, "Secret": Secret}


class Mounts:
    """What the pods of a namespace mount; each is read anew when the API server tells of it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._mounted: set[Volume] = set()
        self._lock = threading.Lock()  # of what is mounted, and of who writes it

    def set_up(self, volume: Volume) -> bool:
        """Show a volume from now on; tell whether the pod may start with what is there."""
        with self._lock:
            self._mounted.add(volume)
            return self._show(volume)

    def tear_down(self, volumes: Collection[Volume]) -> None:
        """Leave the folders of a pod that ended as they are."""
        with self._lock:
            self._mounted.difference_update(volumes)

    def follow(self, kind: Kind, stop: threading.Event) -> None:
        """Watch the objects of a kind until told to stop, and refresh what is mounted of them."""
        while not stop.is_set():
            try:
                self._follow(kind, stop)
            except (httpx2.HTTPError, OSError) as error:
                log(f"mounted {kind}s: watch ended: {error}")
            stop.wait(RELIST_PAUSE_S)

    def _follow(self, kind: Kind, stop: threading.Event) -> None:
        listed = self._client.list(_KINDS[kind], namespace=self._namespace)
        deque(listed, maxlen=0)  # it knows its version once it was read
        self.refresh(kind)
        for _, item in self._client.watch(
            _KINDS[kind],
            namespace=self._namespace,
            server_timeout=WATCH_TIMEOUT_S,
            resource_version=listed.resourceVersion,
        ):
            if item.metadata and item.metadata.name:
                self.refresh(kind, {item.metadata.name})
            if stop.is_set():
                return

    def refresh(self, kind: Kind, names: Collection[str] | None = None) -> None:
        """Read objects of a kind again where pods mount them; all, if none are named.

        What is gone leaves its files behind, as with a kubelet, unless it was optional.
        """
        with self._lock:
            for volume in self._mounted:
                if volume.kind == kind and (names is None or volume.name in names):
                    self._show(volume)

    def _show(self, volume: Volume) -> bool:
        files = files_of(volume, self._read(volume))
        if files is None:
            return False
        if show(volume.folder, files):
            log(f"{volume.kind} {volume.name}: shown in {volume.folder}")
        return True

    def _read(self, volume: Volume) -> dict[str, Any] | None:
        try:
            kind = _KINDS[volume.kind]
            return plain(self._client.get(kind, volume.name, namespace=self._namespace))
        except ApiError as error:
            if error.status.code == HTTPStatus.NOT_FOUND:
                return None
            raise
