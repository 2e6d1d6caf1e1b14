"""Say how to start the load generator: one Locust process, told all by one settings file."""

from __future__ import annotations

from pathlib import Path

from loadtest.settings import LoadSettings, write_settings

LOCUSTFILE = Path(__file__).parent / "locustfiles" / "agentic.py"

# Calls in flight may finish for this long after the end; `loadtest.play.agents` waits as long.
STOP_TIMEOUT_S = 8


def generator_command(
    settings: LoadSettings, *, python: Path, web_port: int | None, processes: int = 1
) -> list[str]:
    """Write the settings file into the output folder and return the argv of the generator.

    Without `web_port` the generator runs headless and ends by itself; with it the web page is on
    loopback, the test starts at once, and the process ends with the test too. With more than one
    of `processes` so many workers make the load, and a master beside them directs it. Exit code 0
    means that the load was made, whatever the answers were; errors of ours have their own codes.
    """
    command = [
        str(python),
        "-m",
        "locust",
        "-f",
        str(LOCUSTFILE),
        *("--settings", str(write_settings(settings))),
        *("--users", str(settings.planned_users)),
        *("--spawn-rate", str(settings.spawn_per_s)),
        *("--stop-timeout", str(STOP_TIMEOUT_S)),
        *("--exit-code-on-error", "0"),
        "--only-summary",
        *(("--processes", str(processes)) if processes > 1 else ()),
    ]
    if web_port is None:
        return [*command, "--headless"]
    web = ["--web-host", "127.0.0.1", "--web-port", str(web_port)]
    return [*command, *web, "--autostart", "--autoquit", "1"]
