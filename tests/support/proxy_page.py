"""Answer every request with a page of HTML, as a proxy on the way to a cloud does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PAGE = b"<!doctype html>\n<html lang=en><title>Sign in</title><p>hunter2</html>\n"


class _Page(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.end_headers()
        self.wfile.write(_PAGE)

    do_GET = do_POST = do_PUT = _answer  # noqa: N815 - names of the standard library

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def proxy_page() -> Iterator[str]:
    """Run such a proxy on the loopback address; give its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
