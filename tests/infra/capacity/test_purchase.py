"""Claims about the one call that spends money: sent once, found again, never repeated."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError
from capacity_fleet import ACCOUNT, Moment, write_fleet
from capacity_market import RACK, ZONE, Market, offer, opened
from moto.server import ThreadedMotoServer
from werkzeug.exceptions import InternalServerError

from fleet.capacity.offers import Offer
from fleet.capacity.order import Bought, Order, order_id
from fleet.errors import BusyError, CloudError, PurchaseError, UnclearPurchaseError
from infra.capacity.aws_access import AwsAccess, check_account
from infra.capacity.clock import Clock
from infra.capacity.purchase import BlockTill, purchase, settle
from infra.capacity.receipts import Receipts

REGION = "us-east-1"
START = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)  # processes have a real clock
END = START + timedelta(days=7)
OFFER = Offer(
    id="cbo-1",
    region=REGION,
    zone=ZONE,
    rack_type=RACK,
    racks=1,
    instances=18,
    starts_at=START,
    ends_at=END,
    hours=Decimal(168),
    fee=Decimal("500000.00"),
    currency="USD",
)


def an_order(moment: Moment) -> Order:
    return Order(
        id=order_id(moment.now, random.Random(3)),  # noqa: S311 - no secret
        fleet="prod",
        fleet_region="us-east",
        racks=("use1-r02",),
        account=ACCOUNT,
        goods=OFFER,
        max_fee=Decimal(600000),
        ordered_at=moment.now,
    )


@dataclass
class Street:
    """A market that is reached over HTTP."""

    market: Market
    url: str

    def access(self, read_timeout_s: float = 30.0) -> AwsAccess:
        """Reach it as boto3 reaches AWS."""
        return AwsAccess(session=boto3.Session(), read_timeout_s=read_timeout_s)


@pytest.fixture
def street(monkeypatch: pytest.MonkeyPatch) -> Iterator[Street]:
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    market = Market(offers={REGION: [offer("cbo-1", start=START)]})
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with opened(market):
        server.start()
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        for name, value in (
            ("AWS_ENDPOINT_URL", url),
            ("AWS_ACCESS_KEY_ID", "testing"),
            ("AWS_SECRET_ACCESS_KEY", "testing"),
        ):
            monkeypatch.setenv(name, value)
        yield Street(market, url)
        server.stop()


@pytest.fixture
def receipts(tmp_path: Path) -> Receipts:
    folder = tmp_path / "capacity"
    folder.mkdir()
    return Receipts(folder)


def test_a_purchase_that_times_out_is_sent_once_and_found(
    street: Street, receipts: Receipts
) -> None:
    """The server has sold, and its answer never comes: the worst moment to try again."""
    over = threading.Event()
    street.market.after_purchase = lambda: over.wait(60) and None
    moment = Moment()
    order = an_order(moment)
    till = BlockTill(access=street.access(read_timeout_s=1.0), order=order, offer=OFFER)
    try:
        receipt = purchase(till, order, receipts, moment.clock())
    finally:
        over.set()
    assert street.market.asked.count("purchase_capacity_block") == 1
    assert (len(street.market.ledger), receipt.found_later) == (1, True)
    assert receipt.bought[0].reservations == ("cr-00000000100000000",)


def test_an_error_of_the_server_is_not_tried_again(street: Street, receipts: Receipts) -> None:
    """botocore repeats a 500 by itself, unless it is told not to."""

    def fail() -> None:
        raise InternalServerError

    street.market.after_purchase = fail
    moment = Moment()
    order = an_order(moment)
    till = BlockTill(access=street.access(), order=order, offer=OFFER)
    assert purchase(till, order, receipts, moment.clock()).found_later
    assert street.market.asked.count("purchase_capacity_block") == 1


def k3fleet(fleet: Path, work: Path, *words: str) -> subprocess.Popen[str]:
    """Start the command as a user does."""
    command = [str(Path(sys.executable).with_name("k3fleet")), "capacity", words[0], str(fleet)]
    return subprocess.Popen(
        [*command, *words[1:], "--work-dir", str(work)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


BUY = ("buy", "cbo-1", "--max-fee", "600000", "--yes", "--expect-fee", "500000.00", "-o", "json")


def test_killed_between_purchase_and_receipt_nothing_is_bought_twice(
    street: Street, tmp_path: Path
) -> None:
    """kill -9, power cut, full memory: the order was on the disk before the call."""
    fleet, work = write_fleet(tmp_path), tmp_path / "work"
    assert ended(k3fleet(fleet, work, "find"))[0] == 0
    sold, over = threading.Event(), threading.Event()

    def hold() -> None:
        sold.set()
        over.wait(60)

    street.market.after_purchase = hold
    first = k3fleet(fleet, work, *BUY)
    try:
        assert sold.wait(60), first.communicate(timeout=1)
        second = ended(k3fleet(fleet, work, *BUY))
        first.send_signal(signal.SIGKILL)
    finally:
        over.set()
        first.kill()
        ended(first)
    assert (second[0], len(street.market.ledger)) == (BusyError.exit_code, 1)
    code, out, err = ended(k3fleet(fleet, work, *BUY))
    assert (code, len(street.market.ledger)) == (0, 1), err
    told = json.loads(out)
    assert (told["found_later"], told["order"]) == (
        True,
        street.market.ledger[0]["tags"]["k3fleet:order"],
    )


def answer(status: int, code: str = "Whatever") -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "text"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "PurchaseCapacityBlock")


class Till:
    """A till that fails in a chosen way, and lists what a test says."""

    def __init__(self, error: BaseException, listed: tuple[Bought, ...] = ()) -> None:
        self.error, self.listed, self.bought = error, listed, 0

    def rehearse(self) -> None: ...

    def buy(self) -> tuple[Bought, ...]:
        self.bought += 1
        raise self.error

    def find(self) -> tuple[Bought, ...]:
        return self.listed


URL = {"endpoint_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    "error",
    [
        answer(400, "InvalidCapacityBlockOfferingId.NotFound"),
        answer(403, "UnauthorizedOperation"),
        answer(503, "RequestLimitExceeded"),
        EndpointConnectionError(**URL),
        ConnectTimeoutError(**URL),
        NoCredentialsError(),
        ParamValidationError(report="x"),
    ],
)
def test_a_clear_refusal_closes_the_order(error: Exception, receipts: Receipts) -> None:
    """Nothing was bought: the next run has nothing to look for."""
    moment, till = Moment(), Till(error)
    order = an_order(moment)
    with pytest.raises(PurchaseError, match="Nothing was paid"):
        purchase(till, order, receipts, moment.clock())
    assert [receipt.outcome for receipt in receipts.receipts()] == ["refused"]
    assert (receipts.open_orders(), moment.waited_s) == ([], 0.0)


@pytest.mark.parametrize(
    "error",
    [
        answer(500, "InternalError"),
        answer(503, "Unavailable"),
        answer(408, "RequestTimeout"),
        answer(0),
        answer(403, ""),  # a proxy's page that happens to be XML
        answer(404, "404"),
        ReadTimeoutError(**URL),
        ConnectionClosedError(**URL),
        ResponseParserError("a proxy's page"),
        OSError("no such error is known"),
    ],
)
def test_everything_else_stays_open(error: Exception, receipts: Receipts) -> None:
    """It may have been bought: looked for, told, and left for the next run."""
    moment, till = Moment(), Till(error)
    order = an_order(moment)
    with pytest.raises(UnclearPurchaseError, match="Run the same command again"):
        purchase(till, order, receipts, moment.clock())
    assert (till.bought, receipts.open_orders()) == (1, [order])
    assert moment.waited_s == 120.0


def test_an_interrupt_leaves_the_order_open(receipts: Receipts) -> None:
    """Ctrl-C in the call is as unclear as a lost answer."""
    moment = Moment()
    order = an_order(moment)
    with pytest.raises(KeyboardInterrupt):
        purchase(Till(KeyboardInterrupt()), order, receipts, moment.clock())
    assert receipts.open_orders() == [order]


def test_an_order_is_settled_once(receipts: Receipts) -> None:
    """A receipt is never written over, whoever finds what."""
    moment = Moment()
    order = an_order(moment)
    receipts.save_order(order)
    till = Till(OSError(), (Bought(block="cb-1", reservations=("cr-1",), ends_at=END),))
    receipt = settle(till, order, receipts, moment.clock())
    assert (receipt is not None and receipt.found_later, receipts.open_orders()) == (True, [])


def test_a_clock_looks_once_at_least() -> None:
    """A wait of no length still asks: the answer may be there."""
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return False

    clock: Clock = Moment().clock()
    done: Callable[[], bool] = look
    assert not clock.until(done, within=timedelta(0), every_s=1.0)
    assert len(looks) == 1


def test_an_answer_that_names_nothing_is_no_receipt(receipts: Receipts) -> None:
    """A login page with status 200 says yes to everything; the tag knows better."""
    moment = Moment()
    order = an_order(moment)
    till = Till(AssertionError(), (Bought(block="cb-1", reservations=("cr-1",), ends_at=END),))
    till.buy = lambda: (Bought(block="", reservations=()),)  # type: ignore[method-assign]
    receipt = purchase(till, order, receipts, moment.clock())
    assert (receipt.found_later, receipt.bought) == (True, till.listed)


@pytest.mark.parametrize("status", [200, 403, 502])
def test_a_page_of_a_proxy_is_told_as_one(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore raises what it raises for a bug of its own; exit 18 must not become a traceback."""

    class Portal(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html>Log in" if status != 200 else b"<html><a/></html>")

        def log_message(self, *_: object) -> None: ...

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    try:
        access = AwsAccess(session=boto3.Session())
        with pytest.raises(CloudError):
            check_account(access, REGION, ACCOUNT)
        till = BlockTill(access=access, order=an_order(Moment()), offer=OFFER)
        with pytest.raises(CloudError):
            till.rehearse()
    finally:
        server.shutdown()
        server.server_close()


def test_a_clock_that_is_set_back_makes_no_wait_longer() -> None:
    """Two minutes are two minutes, whatever time it is."""
    moment, pauses = Moment(), []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        moment.now -= timedelta(days=1)

    clock = Clock(now=lambda: moment.now, pause=pause)
    assert not clock.until(lambda: False, within=timedelta(seconds=120), every_s=10.0)
    assert sum(pauses) == 120
