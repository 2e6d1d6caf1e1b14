"""A hub, its `hf` command, and an API server with one node, for the weights stage."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# Goes on where it stopped and notes each file's digest, as `hf download --local-dir` does. A file
# called `stop` in its folder makes it hang after the first file; names in `corrupt` come out wrong
# as often as the number beside them says.
HF = """#!{python}
import json, shutil, sys, time
from pathlib import Path
here = Path(__file__).parent
repo, revision, target = sys.argv[2], sys.argv[4], Path(sys.argv[6])
source = here / "hub" / repo / revision
if not source.is_dir():
    sys.exit("no such revision")
noted = json.loads((source / "digests.json").read_text())
corrupt = json.loads((here / "corrupt").read_text()) if (here / "corrupt").exists() else {{}}
for name, digest in noted.items():
    path = target / name
    if path.exists():
        continue
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / name, path)
    if corrupt.get(name, 0) > 0:
        corrupt[name] -= 1
        (here / "corrupt").write_text(json.dumps(corrupt))
        path.write_bytes(b"wrong" + path.read_bytes()[5:])
    memory = target / ".cache/huggingface/download" / (name + ".metadata")
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(revision + "\\n" + digest + "\\n0.0\\n")
    with (here / "log").open("a") as log:
        log.write(revision + "/" + name + "\\n")
    while (here / "stop").exists():
        time.sleep(0.05)
"""


class FakeHub:
    """Revisions that a fake `hf` downloads, and how often it did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = folder / "hf"
        command.write_text(HF.format(python=sys.executable))
        command.chmod(0o755)

    def publish(self, repo: str, revision: str, files: dict[str, bytes]) -> None:
        """Add a revision; files called *.json are small ones, which have git's digest."""
        source = self.folder / "hub" / repo / revision
        noted = {}
        for name, content in files.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            small = b"blob %d\0" % len(content) + content
            noted[name] = (
                hashlib.sha1(small, usedforsecurity=False).hexdigest()
                if name.endswith(".json")
                else hashlib.sha256(content).hexdigest()
            )
        (source / "digests.json").write_text(json.dumps(noted))

    def stop_after_first_file(self, stop: bool) -> None:
        """Let a download hang, or go on."""
        flag = self.folder / "stop"
        flag.touch() if stop else flag.unlink()

    def corrupt(self, times: dict[str, int]) -> None:
        """Spoil files on their way, so many times each."""
        (self.folder / "corrupt").write_text(json.dumps(times))

    @property
    def downloaded(self) -> list[str]:
        """List `revision/file` in the order of the downloads."""
        log = self.folder / "log"
        return log.read_text().split() if log.exists() else []


class FakeNode:
    """One node behind an API server on a port of its own."""

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        self.name = name
        self.labels = dict(labels)
        self.patches: list[dict[str, str | None]] = []
        self.tokens: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def patch(self, changes: dict[str, str | None]) -> None:
        """Apply a merge patch of labels."""
        self.patches.append(changes)
        for key, value in changes.items():
            if value is None:
                self.labels.pop(key, None)
            else:
                self.labels[key] = value

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        node = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_PATCH(self) -> None:
                body: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                node.patch(body["metadata"]["labels"])
                self._answer()

            def _answer(self) -> None:
                node.tokens.add(self.headers["Authorization"])
                known = self.path == f"/api/v1/nodes/{node.name}"
                body = json.dumps({"metadata": {"name": node.name, "labels": node.labels}})
                self.send_response(200 if known else 404)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        return Handler
