"""Take the picture of the live charts that docs/web-ui.md shows.

    .venv/bin/python tests/support/web_screenshot.py docs/images/web-ui.png

The figures are of the gateway double of the tests: real traffic, no real fleet.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from browser import browser  # noqa: E402
from load_processes import LoadProcesses, logging_gateway, write_tokenizer  # noqa: E402

STAGES = "warm-up 15s 4; ramp 45s 4..24; soak 10m 24"
SHOWN_S = 90.0
"""How much of the run the picture shows."""


def main(picture: Path) -> None:
    """Play a load on two workers for a while and write the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tokenizer(folder)
        with logging_gateway(folder, folder / "bodies") as url:
            load = LoadProcesses(folder, url, folder)
            targets = {"us-east": f"{url}/ok", "eu-west": f"{url}/ok/"}
            load.write(duration_s=600, targets=targets, time_scale=20, token_scale=60)
            try:
                take(load, folder, picture)
            finally:
                load.end()


def take(load: LoadProcesses, folder: Path, picture: Path) -> None:
    """Start from the form, wait until there is something to see, and take the picture."""
    load.master()
    load.workers(2)
    load.until(lambda: len(load.get()["workers"]) == 2, "two workers")
    load.post("/swarm", user_count="24", spawn_rate="8", stages=STAGES)
    with browser(folder) as page:
        page.open(f"http://127.0.0.1:{load.page}/k3fleet/charts")
        page.most_s = SHOWN_S * 2
        page.until(
            f"parseFloat(document.getElementById('status').textContent) > {SHOWN_S}",
            "enough of the run",
        )
        page.screenshot(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
