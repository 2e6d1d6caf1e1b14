"""Drive a real browser without a window, over its DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from urllib.request import urlopen

from patience import wait_until
from websocket import WebSocket, WebSocketTimeoutException, create_connection

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
MOST_S = 60.0
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-port=0", "--window-size=1400,1100",
)  # fmt: skip

# React keeps its own copy of an input's value and believes only the element's own setter.
_TYPE = """
(() => {
  const input = document.querySelector('[name="%s"]');
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  set.call(input, %s);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  return true;
})()
"""
_CLICK = """
(() => {
  const all = [...document.querySelectorAll('button, a, [role="tab"]')];
  const found = all.find((item) => item.textContent.trim().toLowerCase() === %s);
  if (!found) return false;
  found.click();
  return true;
})()
"""


class Browser:
    """One tab of a browser."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._sent = 0
        self.most_s = MOST_S
        """How long to wait for something on the page."""
        self.complaints: list[str] = []
        """Errors and warnings of pages and scripts."""
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Go to a page."""
        self._call("Page.navigate", url=url)
        self.until('document.readyState === "complete"', f"{url} to load")

    def run(self, script: str) -> Any:
        """Evaluate JavaScript and give its value."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, script: str, what: str) -> Any:
        """Wait until an expression is true, and give its value."""
        deadline, pause = time.monotonic() + self.most_s, Event()
        while time.monotonic() < deadline:
            if found := self.run(script):
                return found
            pause.wait(0.1)
        text = self.run("document.body.innerText")
        raise AssertionError(f"not within {self.most_s:.0f} s: {what}\n{self.complaints}\n{text}")

    def type(self, name: str, text: str) -> None:
        """Fill a field of a form."""
        self.run(_TYPE % (name, json.dumps(text)))

    def click(self, text: str) -> None:
        """Press the button, link or tab with that text."""
        self.until(_CLICK % json.dumps(text.lower()), f"a button {text!r}")

    def screenshot(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        found = self._call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while True:
            try:
                said = json.loads(self._socket.recv())
            except WebSocketTimeoutException as error:
                raise AssertionError(f"{method}: the browser does not answer") from error
            if said.get("id") == self._sent:
                if "error" in said:
                    raise AssertionError(f"{method}: {said['error']}")
                result: dict[str, Any] = said["result"]
                return result
            self._note(said)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] != "info":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.complaints.append(str([item.get("value") for item in params["args"]]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own, and end it."""
    assert BROWSER is not None
    profile = folder / "browser-profile"
    command = [BROWSER, *_FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            socket = create_connection(_address(profile), timeout=MOST_S, suppress_origin=True)
            try:
                yield Browser(socket)
            finally:
                socket.close()
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(profile: Path) -> str:
    """Find where the browser's first tab listens."""
    port_file = profile / "DevToolsActivePort"

    def tabs() -> list[str]:
        if not (port_file.exists() and (lines := port_file.read_text().split())):
            return []
        with urlopen(f"http://127.0.0.1:{int(lines[0])}/json", timeout=MOST_S) as answer:
            found = json.load(answer)
        return [tab["webSocketDebuggerUrl"] for tab in found if tab["type"] == "page"]

    return wait_until(tabs, "the browser did not start")[0]
