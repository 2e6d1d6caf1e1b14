"""Be a store of any size: objects are made of one block over and over, and nothing is kept.

Enough of S3 for a sync and for boto3's transfer manager. What arrives is counted and dropped; an
object that was completed gives back what its name's source would, so reading it back is right.
"""

from __future__ import annotations

import base64
import json
import random
import sys
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs, unquote, urlsplit

BLOCK_BYTES = 1024 * 1024
MAX_REQUEST_BYTES = 5 * 1024**3  # of one copy. Source: Amazon S3 User Guide, "Copying objects"
MAX_PARTS, PAGE = 10_000, 1000  # Same, "Multipart upload limits"
BLOCK = random.Random(1).randbytes(BLOCK_BYTES)  # noqa: S311 - no secret
TWICE = memoryview(BLOCK + BLOCK)


@dataclass
class Objects:
    """What the store knows: sizes of virtual objects, whole small ones, parts of uploads."""

    virtual: dict[str, int] = field(default_factory=dict)
    small: dict[str, bytes] = field(default_factory=dict)
    crcs: dict[str, str] = field(default_factory=dict)
    parts: dict[str, dict[int, int]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)  # of uploads
    parts_in: int = 0
    bytes_in: int = 0
    largest: int = 0
    max_parts: int = MAX_PARTS
    page: int = PAGE  # of parts in a listing
    lock: Lock = field(default_factory=Lock)

    def size(self, path: str) -> int | None:
        if path in self.small:
            return len(self.small[path])
        return self.virtual.get(path)

    def tag(self, path: str) -> str:
        return f'"{abs(hash((path, self.size(path)))):032x}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects = Objects()

    def parse(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return unquote(parts.path).lstrip("/"), parse_qs(parts.query, keep_blank_values=True)

    def do_GET(self) -> None:
        path, query = self.parse()
        if path == "_counts":
            counts = {
                "parts": self.objects.parts_in,
                "bytes": self.objects.bytes_in,
                "largest": self.objects.largest,
            }
            self.reply(200, json.dumps(counts).encode())
        elif "uploads" in query:
            self.reply(200, b"<ListMultipartUploadsResult/>")
        elif "uploadId" in query:
            self.list_parts(query["uploadId"][0], int(query.get("part-number-marker", ["0"])[0]))
        elif "list-type" in query:
            self.list_objects(path.rstrip("/"), query["prefix"][0])
        else:
            self.give(path)

    def do_HEAD(self) -> None:
        path, _ = self.parse()
        size = self.objects.size(path)
        if "/" not in path:
            self.reply(200, b"")
        elif size is None:
            self.reply(404, b"")
        else:
            self.reply(200, b"", {**self.described(path), "Content-Length": str(size)})

    def do_PUT(self) -> None:
        path, query = self.parse()
        length = int(self.headers.get("Content-Length") or 0)
        if "x-amz-copy-source" in self.headers and self.copied_bytes() > MAX_REQUEST_BYTES:
            self.reply(400, b"<Error><Code>InvalidRequest</Code></Error>")
        elif int(query.get("partNumber", ["1"])[0]) > self.objects.max_parts:
            self.drop(length)
            self.reply(400, b"<Error><Code>InvalidArgument</Code></Error>")
        elif "x-amz-copy-source" in self.headers:
            self.took_part(query, self.copied_bytes())
            self.reply(200, b'<CopyPartResult><ETag>"1"</ETag></CopyPartResult>')
        elif "uploadId" in query:
            self.drop(length)
            self.took_part(query, self.decoded(length))
            self.reply(200, b"", {"ETag": '"1"'})
        elif length <= BLOCK_BYTES:
            self.objects.small[path] = self.rfile.read(length)
            self.reply(200, b"", {"ETag": self.objects.tag(path)})
        else:
            self.drop(length)
            self.objects.virtual[path] = self.decoded(length)
            self.reply(200, b"", {"ETag": self.objects.tag(path)})

    def do_POST(self) -> None:
        path, query = self.parse()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "uploads" in query:
            with self.objects.lock:
                upload = str(len(self.objects.keys) + 1)
                self.objects.keys[upload], self.objects.parts[upload] = path, {}
            name = f"<UploadId>{upload}</UploadId>".encode()
            answer = b"<InitiateMultipartUploadResult>" + name + b"</InitiateMultipartUploadResult>"
            self.reply(200, answer)
            return
        self.objects.virtual[path] = sum(self.objects.parts.pop(query["uploadId"][0]).values())
        if crc := self.headers.get("x-amz-checksum-crc64nvme"):
            self.objects.crcs[path] = crc
        self.reply(200, b"<CompleteMultipartUploadResult/>")

    def do_DELETE(self) -> None:
        path, _ = self.parse()
        self.objects.small.pop(path, None)
        self.reply(204, b"")

    def took_part(self, query: dict[str, list[str]], size: int) -> None:
        with self.objects.lock:
            self.objects.parts[query["uploadId"][0]][int(query["partNumber"][0])] = size
            self.objects.parts_in += 1
            self.objects.bytes_in += size
            self.objects.largest = max(self.objects.largest, size)

    def copied_bytes(self) -> int:
        """Say how much a copy asks for: a range, or a whole object."""
        if asked := self.headers.get("x-amz-copy-source-range"):
            first, _, last = asked[6:].partition("-")
            return int(last) - int(first) + 1
        return self.objects.size(unquote(self.headers["x-amz-copy-source"]).lstrip("/")) or 0

    def decoded(self, length: int) -> int:
        return int(self.headers.get("x-amz-decoded-content-length") or length)

    def drop(self, length: int) -> None:
        while length > 0:
            got = len(self.rfile.read(min(length, BLOCK_BYTES)))
            if not got:
                return
            length -= got

    def give(self, path: str) -> None:
        size = self.objects.size(path)
        if size is None:
            self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        start, end = 0, size
        if asked := self.headers.get("Range"):
            first, _, last = asked[6:].partition("-")
            start, end = int(first), min(int(last) + 1, size)
        headers = {**self.described(path), "Content-Length": str(end - start)}
        if asked:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self.reply(206 if asked else 200, b"", headers)
        if path in self.objects.small:
            self.wfile.write(self.objects.small[path][start:end])
            return
        while start < end:
            offset = start % BLOCK_BYTES
            piece = min(BLOCK_BYTES, end - start)
            self.wfile.write(TWICE[offset : offset + piece])
            start += piece

    def described(self, path: str) -> dict[str, str]:
        found = {"ETag": self.objects.tag(path), "Last-Modified": self.date_time_string()}
        if crc := self.objects.crcs.get(path):
            found |= {"x-amz-checksum-crc64nvme": crc, "x-amz-checksum-type": "FULL_OBJECT"}
        return found

    def list_objects(self, bucket: str, prefix: str) -> None:
        known = {**self.objects.virtual, **{k: len(v) for k, v in self.objects.small.items()}}
        items = "".join(
            f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>{self.objects.tag(path)}</ETag>"
            "<LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
            for path, size in sorted(known.items())
            if path.startswith(f"{bucket}/{prefix}") and (key := path.removeprefix(f"{bucket}/"))
        )
        self.reply(200, f"<ListBucketResult>{items}</ListBucketResult>".encode())

    def list_parts(self, upload: str, after: int) -> None:
        known = sorted(self.objects.parts.get(upload, {}).items())
        left = [part for part in known if part[0] > after]
        items = "".join(
            f'<Part><PartNumber>{number}</PartNumber><Size>{size}</Size><ETag>"1"</ETag></Part>'
            for number, size in left[: self.objects.page]
        )
        if len(left) > self.objects.page:
            last = left[self.objects.page - 1][0]
            items += f"<IsTruncated>true</IsTruncated><NextPartNumberMarker>{last}"
            items += "</NextPartNumberMarker>"
        self.reply(200, f"<ListPartsResult>{items}</ListPartsResult>".encode())

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: a line for each request would hide what its users print."""


def main(told: str) -> None:
    """Serve the objects that were told, as JSON, until killed; print the port."""
    content = json.loads(told)
    Handler.objects.virtual.update(content["virtual"])
    for name, value in content.get("limits", {}).items():
        setattr(Handler.objects, name, value)
    for path, text in content["small"].items():
        Handler.objects.small[path] = base64.b64decode(text)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(sys.stdin.readline())
