"""Claims about orders and receipts as files: whole, kept, never written over."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from capacity_fleet import NOW

from fleet.capacity.order import Extension, Order, Receipt
from fleet.errors import BusyError, ConfigError, FleetError
from infra.capacity.receipts import Receipts

ORDER = Order(
    id="20261201T120000Z-000000000001",
    fleet="prod",
    fleet_region="us-east",
    racks=(),
    account="123456789012",
    goods=Extension(
        id="cbe-1",
        region="us-east-1",
        reservation="cr-1",
        starts_at=NOW,
        ends_at=NOW + timedelta(days=7),
        fee=Decimal("123456.78"),
        currency="USD",
    ),
    max_fee=Decimal(200000),
    ordered_at=NOW,
)


@pytest.fixture
def receipts(tmp_path: Path) -> Receipts:
    folder = tmp_path / "capacity"
    folder.mkdir()
    return Receipts(folder)


def test_an_order_is_read_as_it_was_written(receipts: Receipts) -> None:
    """The fee to the cent: the next run asks by it."""
    receipts.save_order(ORDER)
    assert receipts.open_orders() == [ORDER]


def test_nothing_is_written_over(receipts: Receipts) -> None:
    """A second receipt of an order would hide the first."""
    receipt = Receipt(order=ORDER.id, outcome="bought", at=NOW)
    path = receipts.save_receipt(receipt)
    before = path.read_bytes()
    with pytest.raises(FleetError, match="File exists"):
        receipts.save_receipt(receipt.model_copy(update={"outcome": "refused"}))
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"id": "x"}', b"\xff\xfe"])
def test_a_damaged_order_stops_everything(receipts: Receipts, content: bytes) -> None:
    """Skipped silently, what it bought would be bought again."""
    path = receipts.save_order(ORDER)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="nobody knows what was ordered"):
        receipts.open_orders()


def test_damaged_quotes_are_found_anew(receipts: Receipts) -> None:
    """They are only a memory of the last search."""
    receipts.save_quotes([])
    (receipts.folder / "offers.json").write_text('[{"id": "x"}]')
    with pytest.raises(ConfigError, match="Run `k3fleet capacity find`"):
        receipts.quote("x")


def test_one_process_buys_at_a_time(receipts: Receipts) -> None:
    """Two would each see that nothing was bought yet."""
    with (
        receipts.locked(),
        pytest.raises(BusyError, match="another k3fleet capacity"),
        Receipts(receipts.folder).locked(),
    ):
        pass
    with receipts.locked():
        pass


def test_half_of_an_order_is_none(receipts: Receipts, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk nothing was bought, and the next run must not stop at the remains."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FleetError, match="Nothing is bought without a receipt"):
        receipts.save_order(ORDER)
    assert receipts.orders() == []
    monkeypatch.undo()
    receipts.save_order(ORDER)
    assert receipts.orders() == [ORDER]


def test_a_blocked_output_is_no_second_buyer(receipts: Receipts) -> None:
    """Exit 9 says that nothing was done here."""
    with pytest.raises(BlockingIOError), receipts.locked():
        raise BlockingIOError
