"""Measure the peak memory of a lab's processes while it runs."""

from __future__ import annotations

import threading

from lab.processes import resident_bytes

SAMPLE_S = 3.0  # one sample reads every process of the machine: about 50 ms


class MemoryMeter:
    """Samples the memory of a lab's processes in the background; `peak_bytes` is the largest."""

    def __init__(self, lab_id: str) -> None:
        self.peak_bytes = 0
        self._lab_id = lab_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End sampling."""
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, resident_bytes(self._lab_id))
