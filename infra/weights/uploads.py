"""Send files in parts, and see what parts are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.weights.manifest import FileEntry
from fleet.weights.parts import Part, Upload
from infra.weights.digests import crc_header, crc_of_hex, md5_header
from infra.weights.store import Store
from infra.weights.store_errors import AbsentError, ChangedError, asked, given

Content = bytes | bytearray


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """The object that parts are copied from."""

    store: Store
    key: str
    etag: str


class Uploads:
    """The multipart uploads of a folder."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._client, self._bucket = store.client, store.spec.bucket
        self._crc = store.spec.checksum == "crc64nvme"

    def open(self, folder: str) -> tuple[Upload, ...]:
        """List the uploads below a folder that were begun and not ended, with their parts."""
        prefix = self._store.below(folder)
        pages = self._client.get_paginator("list_multipart_uploads")
        with asked(self._store.where(prefix)):
            found = [
                item
                for page in pages.paginate(Bucket=self._bucket, Prefix=prefix)
                for item in page.get("Uploads", ())
                if str(given(item, "Key", self._store.where(prefix))).startswith(prefix)
            ]
        return tuple(self._upload(item) for item in found)

    def send_whole(self, key: str, content: Content) -> None:
        """Send a small file in one request: it is there whole, or not at all."""
        with asked(self._store.where(key)):
            self._client.put_object(
                Bucket=self._bucket, Key=key, Body=content, **self._checks(content)
            )

    def begin(self, key: str) -> str:
        """Begin an upload and give its id."""
        checks: dict[str, str] = {}
        if self._crc:
            checks = {"ChecksumAlgorithm": "CRC64NVME", "ChecksumType": "FULL_OBJECT"}
        with asked(self._store.where(key)):
            answer = self._client.create_multipart_upload(Bucket=self._bucket, Key=key, **checks)
        return str(given(answer, "UploadId", self._store.where(key)))

    def send(self, key: str, upload: str, part: Part, content: Content) -> None:
        """Send the bytes of a part; the store refuses them if they change on the way."""
        with asked(self._store.where(key)):
            self._client.upload_part(
                Bucket=self._bucket,
                Key=key,
                UploadId=upload,
                PartNumber=part.number,
                Body=content,
                **self._checks(content),
            )

    def copy(self, key: str, upload: str, part: Part, source: From) -> None:
        """Have the store copy a part of another object, as long as that has its tag."""
        with asked(self._store.where(key)):
            self._client.upload_part_copy(
                Bucket=self._bucket,
                Key=key,
                UploadId=upload,
                PartNumber=part.number,
                CopySource={"Bucket": source.store.spec.bucket, "Key": source.key},
                CopySourceIfMatch=source.etag,
                CopySourceRange=f"bytes={part.start}-{part.end - 1}",
            )

    def complete(self, key: str, upload: str, entry: FileEntry, parts: Sequence[Part]) -> None:
        """Make an object of the parts; ChangedError when they are not all there as planned."""
        there = self._parts(key, upload)
        where = self._store.where(key)
        sizes = {number: given(part, "Size", where) for number, part in there.items()}
        if sizes != {part.number: part.bytes for part in parts}:
            raise ChangedError(
                f"{self._store.where(key)}: the parts of its upload are not those that were sent. "
                "Somebody else uploads it too: see who, then run it again."
            )
        checks: dict[str, Any] = {}
        if self._crc:
            checks = {
                "ChecksumCRC64NVME": crc_of_hex(entry.crc64nvme),
                "ChecksumType": "FULL_OBJECT",
            }
        listed = [
            {"PartNumber": number, "ETag": given(there[number], "ETag", where)}
            for number in sorted(there)
        ]
        with asked(where):
            self._client.complete_multipart_upload(
                Bucket=self._bucket,
                Key=key,
                UploadId=upload,
                MultipartUpload={"Parts": listed},
                **checks,
            )

    def abort(self, key: str, upload: str) -> None:
        """Throw away an upload and its parts; one that is gone is no error."""
        try:
            with asked(self._store.where(key)):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)
        except AbsentError:
            return

    def _checks(self, content: Content) -> dict[str, str]:
        if self._crc:
            return {
                "ChecksumAlgorithm": "CRC64NVME",
                "ChecksumCRC64NVME": crc_header(content),
            }
        return {"ContentMD5": md5_header(content)}

    def _upload(self, item: Mapping[str, Any]) -> Upload:
        where = self._store.where(item["Key"])
        upload = str(given(item, "UploadId", where))
        parts = self._parts(item["Key"], upload)
        return Upload(
            key=item["Key"],
            id=upload,
            parts={number: given(part, "Size", where) for number, part in parts.items()},
            begun_s=given(item, "Initiated", where).timestamp(),
        )

    def _parts(self, key: str, upload: str) -> dict[int, Any]:
        where = self._store.where(key)
        pages = self._client.get_paginator("list_parts")
        try:
            with asked(where):
                answers = pages.paginate(Bucket=self._bucket, Key=key, UploadId=upload)
                return {
                    given(part, "PartNumber", where): part
                    for page in answers
                    for part in page.get("Parts", ())
                }
        except AbsentError:  # ended between the two questions
            return {}
