"""Fixtures that write fleet files into a temporary folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MINIMAL = """\
apiVersion: k3fleet/v1
name: demo
release: vllm-tp8-dcp8
regions:
  - name: us-east
    racks:
      - id: use1-r01
"""

WriteFile = Callable[..., Path]


@pytest.fixture
def write_file(tmp_path: Path) -> WriteFile:
    """Write text (or a change of the minimal fleet) to a file and return its path."""

    def write(
        text: str = MINIMAL, *, name: str = "fleet.yaml", change: tuple[str, str] | None = None
    ) -> Path:
        if change is not None:
            assert change[0] in text
            text = text.replace(*change)
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
