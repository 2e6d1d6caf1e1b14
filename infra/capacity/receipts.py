"""Keep orders and receipts in files that survive a kill, and are never written over.

`ORDER.order.json` is there before money can be spent, `ORDER.receipt.json` right after the
answer. An order without a receipt is one whose outcome nobody knows yet.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from fleet.capacity.offers import Offer
from fleet.capacity.order import Order, Receipt
from fleet.errors import BusyError, ConfigError, FleetError
from fleet.schema import FileModel

_ORDER, _RECEIPT, _QUOTES = ".order.json", ".receipt.json", "offers.json"
_LOCK = "lock"
_OFFERS: TypeAdapter[list[Offer]] = TypeAdapter(list[Offer])
ModelT = TypeVar("ModelT", bound=FileModel)


class Receipts:
    """The folder with a fleet's orders, receipts and the latest quotes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only process that buys from here; raise BusyError when another one does."""
        with _writable(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BusyError(
                    f"{self.folder}: another k3fleet capacity buys from here. Wait for its end."
                ) from error
            yield
        finally:
            os.close(descriptor)

    def save_order(self, order: Order) -> Path:
        """Write an order; when this returns it is on the disk."""
        return self._save(f"{order.id}{_ORDER}", order)

    def save_receipt(self, receipt: Receipt) -> Path:
        """Write how an order ended."""
        return self._save(f"{receipt.order}{_RECEIPT}", receipt)

    def orders(self) -> list[Order]:
        """Read all orders, the oldest first."""
        return [_read(path, Order) for path in self._files(_ORDER)]

    def receipts(self) -> list[Receipt]:
        """Read all receipts, the oldest first."""
        return [_read(path, Receipt) for path in self._files(_RECEIPT)]

    def open_orders(self) -> list[Order]:
        """Read the orders whose outcome nobody knows."""
        settled = {receipt.order for receipt in self.receipts()}
        return [order for order in self.orders() if order.id not in settled]

    def save_quotes(self, offers: list[Offer]) -> None:
        """Keep what was quoted last, by which `buy` knows an offer; replaced by the next."""
        with _writable(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = self.folder / f".{_QUOTES}.{os.getpid()}"
            draft.write_bytes(_OFFERS.dump_json(offers, indent=1))
            draft.replace(self.folder / _QUOTES)

    def quote(self, offer_id: str) -> Offer:
        """Give a quoted offer; raise ConfigError for one that was not quoted here."""
        path = self.folder / _QUOTES
        try:
            offers = _OFFERS.validate_json(path.read_bytes())
        except FileNotFoundError:
            offers = []
        except (OSError, ValidationError) as error:
            raise ConfigError(f"{path}: cannot be read. Run `k3fleet capacity find`.") from error
        for offer in offers:
            if offer.id == offer_id:
                return offer
        raise ConfigError(
            f"{offer_id}: is not among the {len(offers)} offers that were found last. "
            "Run `k3fleet capacity find` for this fleet, and take an id from there."
        )

    def _files(self, suffix: str) -> list[Path]:
        return sorted(self.folder.glob(f"*{suffix}"))

    def _save(self, name: str, model: FileModel) -> Path:
        path, draft = self.folder / name, self.folder / f".{name}.new"
        with _writable(path):
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            descriptor = os.open(draft, flags, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(model.model_dump_json(indent=1).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)  # half of a file never has its name: a full disk, a kill
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)  # the name too must survive a power cut
            finally:
                os.close(folder)
        return path


def _read(path: Path, model: type[ModelT]) -> ModelT:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ConfigError(
            f"{path}: cannot be read, so nobody knows what was ordered. "
            "Look at the blocks in the cloud's console, then move the file away."
        ) from error


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FleetError(
            f"{path}: cannot write: {error.strerror}. Nothing is bought without a receipt. "
            "Free space, or give another --work-dir."
        ) from error
