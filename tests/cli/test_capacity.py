"""Claims about `k3fleet capacity` against a market that counts what it was paid.

The command runs in this process with real boto3; only EC2 is moto's, and its time is ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from capacity_fleet import NOW, RESERVATION, Moment, write_fleet
from capacity_market import ZONE, Market, block, offer, opened
from moto import mock_aws
from moto.ec2.exceptions import EC2ClientError
from werkzeug.exceptions import InternalServerError

from cli.main import main
from infra.capacity import aws_access

BUY = ("--max-fee", "600000", "--yes", "--expect-fee", "500000.00")


@dataclass
class Shop:
    """A market, a fleet, and a way to run the command on both."""

    market: Market
    moment: Moment
    fleet: Path
    work: Path
    capture: pytest.CaptureFixture[str]

    def run(self, verb: str, *words: str) -> tuple[int, str, str]:
        """Run a command; give its exit code and what it printed."""
        code = main(["capacity", verb, str(self.fleet), *words, "--work-dir", str(self.work)])
        out, err = self.capture.readouterr()
        return code, out, err

    def found(self) -> None:
        """Have the offers quoted."""
        assert self.run("find", "--until", "2026-12-15")[0] == 0  # a question or two, not eight

    def files(self, suffix: str) -> list[Any]:
        """Read the orders or receipts."""
        folder = self.work / "capacity"
        return [json.loads(path.read_text()) for path in sorted(folder.glob(f"*.{suffix}.json"))]


@pytest.fixture
def shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shop]:
    market = Market(
        offers={
            "us-east-1": [offer("cbo-dear", "500000.00"), offer("cbo-big", "900000.00", racks=2)]
        },
        blocks={"us-east-1": [block()]},
    )
    moment = Moment()
    monkeypatch.setattr("cli.capacity_options.capacity_clock", moment.clock)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # a second per test
    with mock_aws(), opened(market):
        yield Shop(market, moment, write_fleet(tmp_path), tmp_path / "work", capsys)


def test_offers_are_sorted_by_the_price_of_a_rack_hour(shop: Shop) -> None:
    """Two weeks cost more than one, and may still be cheaper."""
    shop.market.offers["us-east-1"] += [offer("cbo-long", "800000.00", hours=336)]
    code, out, _ = shop.run("find", "--for", "7d", "--for", "14d", "-o", "json")
    told = json.loads(out)
    prices = [(item["id"], item["fee_per_rack_hour"]) for item in told["offers"]]
    assert (code, prices) == (0, [("cbo-long", "2380.95"), ("cbo-dear", "2976.19")])


def test_find_says_that_there_is_no_way_back(shop: Shop) -> None:
    """The price of a week is that of a house."""
    _, out, _ = shop.run("find")
    assert "cannot be cancelled" in out
    assert json.loads(shop.run("find", "-o", "json")[1])["can_be_cancelled"] is False


def test_nothing_offered_is_told_by_the_exit_code(shop: Shop) -> None:
    """A script that looks every hour needs no parsing."""
    shop.market.offers.clear()
    code, out, _ = shop.run("find")
    assert (code, out.split(".")[0]) == (1, "Nothing is offered")


def test_unknown_quotas_are_told_as_unknown(shop: Shop) -> None:
    """A guess would be believed."""
    assert json.loads(shop.run("find", "-o", "json")[1])["quotas"][0]["value"] is None


def test_quotas_are_found_by_their_names(shop: Shop) -> None:
    """Their codes are not documented, and may differ between regions."""
    shop.market.quotas = [
        {"QuotaName": "Running On-Demand P instances", "Value": 9.0},
        {"QuotaName": "Concurrent Capacity Blocks per account", "Value": 3.0},
    ]
    quotas = json.loads(shop.run("find", "-o", "json")[1])["quotas"]
    assert [(quota["name"], quota["value"]) for quota in quotas] == [
        ("Concurrent Capacity Blocks per account", 3.0)
    ]


def test_find_changes_no_opt_in_by_itself(shop: Shop) -> None:
    """An opt-in cannot be taken back without AWS's support."""
    shop.market.opted_in = []
    told = json.loads(shop.run("find", "-o", "json")[1])
    assert told["offers"][0]["zone_status"] == "not-opted-in"
    assert shop.run("find", "--opt-in")[0] == 3  # nobody can be asked here
    assert shop.market.opted_in == []


def test_opt_in_is_done_when_agreed(shop: Shop) -> None:
    """Racks are in a Local Zone, which no account sees by default."""
    shop.market.opted_in = []
    assert shop.run("find", "--opt-in", "--yes")[0] == 0
    assert shop.market.opted_in == ["us-east-1-dfw-2"]


def test_a_purchase_tells_what_to_write_into_the_fleet_file(shop: Shop) -> None:
    """Between a block and its rack is a line that a person copies."""
    shop.found()
    code, out, _ = shop.run("buy", "cbo-dear", *BUY, "--besides", "cb-1")
    assert code == 0
    assert f"capacity: {{reservation: cr-00000000100000000, zone: {ZONE}}}" in out
    assert "capacity_ends_at: 2026-12-17T11:30:00Z" in out


def test_a_purchase_is_tagged_and_kept(shop: Shop) -> None:
    """The tag finds it in the account, the receipt on this machine."""
    shop.found()
    assert shop.run("buy", "cbo-dear", *BUY, "--rack", "use1-r02")[0] == 0
    (order,), (receipt,) = shop.files("order"), shop.files("receipt")
    assert shop.market.ledger == [
        {
            "offer": "cbo-dear",
            "tags": {
                "k3fleet:fleet": "prod",
                "k3fleet:region": "us-east",
                "k3fleet:rack": "use1-r02",
                "k3fleet:managed-by": "k3fleet",
                "k3fleet:order": order["id"],
            },
        }
    ]
    assert (receipt["order"], receipt["outcome"]) == (order["id"], "bought")


def test_a_dry_run_comes_first(shop: Shop) -> None:
    """Two requests, of which one is paid for."""
    shop.found()
    shop.run("buy", "cbo-dear", *BUY)
    assert shop.market.asked.count("purchase_capacity_block") == 2
    assert len(shop.market.ledger) == 1


def test_receipts_are_for_their_owner_only(shop: Shop) -> None:
    """They name account, price and reservation."""
    shop.found()
    shop.run("buy", "cbo-dear", *BUY)
    modes = {path.stat().st_mode & 0o777 for path in (shop.work / "capacity").glob("*.*.json")}
    assert modes == {0o600}


def vanish(shop: Shop) -> None:
    shop.market.offers["us-east-1"] = []


def dearer(shop: Shop) -> None:
    shop.market.offers["us-east-1"][0]["UpfrontFee"] = "550000.00"


def refuse(shop: Shop) -> None:
    shop.market.refuses = "Client.InsufficientCapacity"


def idle(shop: Shop) -> None:
    shop.market.blocks["us-east-1"].append(block("cb-idle", "cr-aaaaaaaaaaaaaaaaa"))


def opted_out(shop: Shop) -> None:
    shop.market.opted_in = []


def nothing(shop: Shop) -> None:
    del shop


def foreign_account(shop: Shop) -> None:
    write_fleet(shop.fleet.parent, account="999999999999")


def elsewhere(shop: Shop) -> None:
    text = (shop.work / "capacity/offers.json").read_text()
    (shop.work / "capacity/offers.json").write_text(text.replace('"us-east-1"', '"eu-west-1"'))


REFUSALS: list[tuple[Callable[[Shop], None], tuple[str, ...], int, str]] = [
    (vanish, BUY, 17, "is no longer offered"),
    (dearer, BUY, 17, "cost 500000.00 USD and now 550000.00 USD"),
    (refuse, BUY, 17, "was not bought: PurchaseCapacityBlock: Client.InsufficientCapacity"),
    (opted_out, BUY, 3, "has not opted in to us-east-1-dfw-2"),
    (idle, BUY, 3, "cb-idle (active): bought for prod already"),
    (nothing, ("--max-fee", "499999", *BUY[2:]), 3, "above --max-fee 499999"),
    (nothing, (*BUY[:3], "--expect-fee", "500000.01"), 3, "not --expect-fee 500000.01"),
    (nothing, BUY[:3], 3, "--yes: needs --expect-fee"),
    (nothing, BUY[:2], 3, "nobody can be asked here"),
    (nothing, ("--max-fee", "lots", *BUY[2:]), 3, "--max-fee: 'lots' is no sum of money"),
    (nothing, ("--max-fee", "NaN", *BUY[2:]), 3, "--max-fee: 'NaN' is no sum of money"),
    (nothing, BUY[2:], 3, "Missing option '--max-fee'"),
    (nothing, (*BUY, "--rack", "use1-r09"), 3, "us-east has no rack 'use1-r09'"),
    (nothing, (*BUY, "--rack", "use1-r01"), 3, "use1-r01 has capacity already"),
    (nothing, (*BUY, "--region", "eu-west"), 3, "'eu-west' is no region of the fleet"),
    (elsewhere, BUY, 3, "has no region in eu-west-1"),
    (foreign_account, BUY, 13, "the credentials are of account 123456789012"),
]


@pytest.mark.parametrize(("change", "words", "code", "message"), REFUSALS)
def test_nothing_is_bought_when_something_is_off(
    shop: Shop, change: Callable[[Shop], None], words: tuple[str, ...], code: int, message: str
) -> None:
    """Each has its own sentence, and the market was not paid."""
    shop.found()
    change(shop)
    found, _, err = shop.run("buy", "cbo-dear", *words)
    assert (found, shop.market.ledger) == (code, [])
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_an_offer_that_was_not_quoted_here_is_refused(shop: Shop) -> None:
    """Its price is known to nobody."""
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    assert (code, shop.market.ledger) == (3, [])
    assert "is not among the 0 offers" in err


def test_an_offer_under_a_new_id_is_the_same_offer(shop: Shop) -> None:
    """Whether EC2 keeps an offer's id from one question to the next is not documented."""
    shop.found()
    shop.market.offers["us-east-1"][0]["CapacityBlockOfferingId"] = "cbo-renamed"
    assert shop.run("buy", "cbo-dear", *BUY)[0] == 0
    assert [entry["offer"] for entry in shop.market.ledger] == ["cbo-renamed"]


def test_a_failed_payment_is_told(shop: Shop) -> None:
    """It is found out minutes later, and no rack comes of it."""
    shop.market.states = ("payment-pending", "payment-pending", "payment-failed")
    shop.found()
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    assert code == 17
    assert "is payment-failed. It gives no rack" in err
    assert json.loads(shop.run("status", "-o", "json")[1])["alarms"][0]["kind"] == "payment-failed"


def test_a_pending_payment_ends_the_wait_but_not_the_purchase(shop: Shop) -> None:
    """Exit 2: it cannot be told yet, and what to write is told anyway."""
    shop.market.states = ("payment-pending",)
    shop.found()
    code, out, _ = shop.run("buy", "cbo-dear", *BUY, "--wait", "5m")
    assert (code, shop.moment.waited_s) == (2, 300)
    assert "cr-00000000100000000" in out


def lose_the_answer() -> None:
    """Fail like AWS's front door, after the purchase went through it."""
    raise InternalServerError


def test_a_purchase_without_an_answer_is_found_by_its_tag(shop: Shop) -> None:
    """The money is gone: what it bought is looked for, and nothing is bought again."""
    shop.market.after_purchase = lose_the_answer
    shop.market.hidden_looks = 3
    shop.found()
    code, out, _ = shop.run("buy", "cbo-dear", *BUY, "-o", "json")
    told = json.loads(out)
    assert (code, told["found_later"], len(shop.market.ledger)) == (0, True, 1)
    assert told["bought"][0]["reservation"] == "cr-00000000100000000"


def test_a_purchase_that_stays_unclear_is_found_by_the_next_run(shop: Shop) -> None:
    """The usual reflex is to run the command again: that must be the right one."""
    shop.market.after_purchase = lose_the_answer
    shop.market.hidden_looks = 100
    shop.found()
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    assert (code, "It may have been bought" in err) == (18, True)
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    assert (code, "It may still appear" in err) == (18, True)
    shop.market.blocks["us-east-1"][-1]["_hidden"] = 0
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    assert (code, "was bought after all" in err, len(shop.market.ledger)) == (0, True, 1)
    assert [receipt["outcome"] for receipt in shop.files("receipt")] == ["bought"]


def test_an_order_is_given_up_only_after_an_hour(shop: Shop) -> None:
    """What was bought may be listed late; given up too early it would be bought twice."""
    shop.market.after_purchase = lose_the_answer
    shop.market.hidden_looks = 10_000
    shop.found()
    shop.run("buy", "cbo-dear", *BUY)
    (order,) = shop.files("order")
    assert shop.run("buy", "cbo-dear", *BUY, "--abandon", order["id"])[0] == 18
    shop.moment.now += timedelta(hours=1)
    shop.market.after_purchase = lambda: None
    shop.market.hidden_looks = 0
    assert shop.run("buy", "cbo-dear", *BUY, "--abandon", order["id"])[0] == 0
    assert [item["outcome"] for item in shop.files("receipt")] == ["abandoned", "bought"]


def test_an_unknown_order_cannot_be_abandoned(shop: Shop) -> None:
    """Ignored, it would be believed to be given up, and the next run would stop at it again."""
    shop.found()
    code, _, err = shop.run("buy", "cbo-dear", *BUY, "--abandon", "o-typo")
    assert (code, shop.market.ledger) == (3, [])
    assert "--abandon o-typo: is no order made here" in err
    assert "Open orders: none" in " ".join(err.split())
    assert shop.run("buy", "cbo-dear", *BUY)[0] == 0
    [order] = shop.files("order")
    code, _, err = shop.run("buy", "cbo-dear", *BUY, "--abandon", order["id"])
    assert (code, f"--abandon {order['id']}: has ended: bought" in err) == (3, True)


def test_a_second_block_is_bought_only_when_the_first_is_named(shop: Shop) -> None:
    """A block without a rack is more often a forgotten line than a wish for two."""
    shop.found()
    assert shop.run("buy", "cbo-dear", *BUY)[0] == 0
    assert shop.run("buy", "cbo-dear", *BUY)[0] == 3
    assert len(shop.market.ledger) == 1
    first = "cb-00000000000000001"
    assert shop.run("buy", "cbo-dear", *BUY, "--besides", first)[0] == 0
    assert len(shop.market.ledger) == 2


def test_no_receipt_no_purchase(shop: Shop) -> None:
    """On a full or read-only disk nobody would know of it."""
    shop.found()
    (shop.work / "capacity").rename(shop.work / "kept")
    (shop.work / "capacity").symlink_to("/proc/self")  # takes no new files, from root neither
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    assert (code, shop.market.ledger) == (4, [])
    assert "Nothing is bought without a receipt" in err


@pytest.mark.parametrize(
    ("answer", "paid"), [("500000.00 1", 1), ("500000.00", 0), ("y", 0), ("500000.00 2", 0)]
)
def test_on_a_terminal_fee_and_count_are_typed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, answer: str, paid: int
) -> None:
    """A reflex types `y`; nobody types half a million by reflex."""
    shop.found()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda *_, **__: answer)
    code, _, _ = shop.run("buy", "cbo-dear", "--max-fee", "600000")
    assert (code, len(shop.market.ledger)) == (0 if paid else 3, paid)


@pytest.fixture
def no_session() -> Iterator[None]:
    """Have credentials read anew, before and after."""
    aws_access.default_access.cache_clear()
    yield
    aws_access.default_access.cache_clear()


def clear_credentials(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(shop.work / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shop.work / "none"))
    aws_access.default_access.cache_clear()


@pytest.mark.usefixtures("no_session")
def test_missing_credentials_are_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most common first run."""
    shop.found()
    clear_credentials(monkeypatch, shop)
    for verb, words in (("find", ()), ("buy", ("cbo-dear", *BUY)), ("status", ())):
        code, _, err = shop.run(verb, *words)
        assert (code, "no credentials" in err) == (13, True)
    assert shop.market.ledger == []


def test_expired_credentials_are_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login lasts for hours, a launch for days."""
    shop.found()

    def expired(*_: Any, **__: Any) -> Any:
        raise EC2ClientError(
            "ExpiredToken", "The security token included in the request is expired"
        )

    monkeypatch.setattr("moto.sts.responses.TokenResponse.get_caller_identity", expired)
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    assert (code, shop.market.ledger) == (13, [])
    assert "the credentials have expired. Log in again." in err


def healthy(shop: Shop) -> None:
    del shop


def impaired(shop: Shop) -> None:
    shop.market.health["cb-1"] = {"InterconnectStatus": "impaired"}


def broken_trays(shop: Shop) -> None:
    shop.market.health["cb-1"] = {"TotalAvailableCapacity": 16, "TotalUnavailableCapacity": 2}


def ending(shop: Shop) -> None:
    shop.moment.now = NOW + timedelta(days=13)  # three days, less half an hour, are left


def drained_late(shop: Shop) -> None:
    ending(shop)
    shop.moment.now += timedelta(days=2, hours=21)


def expired_block(shop: Shop) -> None:
    shop.market.blocks["us-east-1"][0]["State"] = "expired"


def gone(shop: Shop) -> None:
    shop.market.blocks["us-east-1"].clear()


def of_others(shop: Shop) -> None:
    shop.market.blocks["us-east-1"][0]["Tags"] = [{"Key": "k3fleet:fleet", "Value": "other"}]


def moved_end(shop: Shop) -> None:
    shop.market.blocks["us-east-1"][0]["EndDate"] += timedelta(days=7)


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (healthy, []),
        (impaired, ["impaired"]),
        (broken_trays, ["machines-unavailable"]),
        (ending, ["ends-soon"]),
        (drained_late, ["ends-soon", "drain-now"]),
        (expired_block, ["expired"]),
        (gone, ["not-found"]),
        (of_others, ["foreign"]),
        (moved_end, ["end-differs"]),
        (idle, ["not-in-fleet-file"]),
    ],
)
def test_status_alarms(shop: Shop, change: Callable[[Shop], None], kinds: list[str]) -> None:
    """Each is a word that a script can wait for, and exit 1."""
    change(shop)
    code, out, _ = shop.run("status", "-o", "json")
    assert [alarm["kind"] for alarm in json.loads(out)["alarms"]] == kinds
    assert code == (1 if kinds else 0)
    assert shop.run("status")[0] == code  # the table too


def test_blocks_of_other_teams_are_not_shown(shop: Shop) -> None:
    """An account may hold many, which are nobody's business here."""
    shop.market.blocks["us-east-1"].append(block("cb-theirs", "cr-bbbbbbbbbbbbbbbbb", Tags=[]))
    told = json.loads(shop.run("status", "-o", "json")[1])
    assert [item["block"] for item in told["blocks"]] == ["cb-1"]


def test_the_drain_ends_an_hour_before_the_block(shop: Shop) -> None:
    """Nine replicas, a quarter of an hour each, 20 minutes to end nodes, an hour for AWS."""
    told = json.loads(shop.run("status", "-o", "json")[1])["racks"]["use1-r01"]
    assert told == {
        "drain_at": "2026-12-17T07:55:00Z",
        "scale_in_at": "2026-12-17T10:10:00Z",
        "empty_by": "2026-12-17T10:30:00Z",
        "eks_acts_at": "2026-12-17T10:50:00Z",
        "ends_at": "2026-12-17T11:30:00Z",
    }


def make_node_group(shop: Shop) -> str:
    """Make the rack's node group in moto's EKS; give its Auto Scaling group."""
    del shop
    eks = boto3.client("eks", region_name="us-east-1")
    role = "arn:aws:iam::123456789012:role/x"
    eks.create_cluster(name="us-east", roleArn=role, resourcesVpcConfig={"subnetIds": []})
    for rack in ("use1-r00", "use1-r01"):
        marks = {"k3fleet:fleet": "prod", "k3fleet:rack": rack}
        eks.create_nodegroup(
            clusterName="us-east", nodegroupName=rack, subnets=[], nodeRole=role, tags=marks
        )
    made = eks.describe_nodegroup(clusterName="us-east", nodegroupName="use1-r01")["nodegroup"]
    name = str(made["resources"]["autoScalingGroups"][0]["name"])
    scaling = boto3.client("autoscaling", region_name="us-east-1")
    scaling.create_launch_configuration(
        LaunchConfigurationName="x", ImageId="ami-12c6146b", InstanceType="t2.micro"
    )
    scaling.create_auto_scaling_group(
        AutoScalingGroupName=name,
        MinSize=0,
        MaxSize=18,
        LaunchConfigurationName="x",
        AvailabilityZones=["us-east-1a"],
    )
    return name


def test_the_schedule_goes_to_the_racks_own_group(shop: Shop) -> None:
    """Earlier than EKS's own action, which comes 20 minutes after AWS's limit."""
    name = make_node_group(shop)
    assert shop.run("status", "--schedule")[0] == 3  # nobody can be asked here
    scaling = boto3.client("autoscaling", region_name="us-east-1")
    assert scaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"] == []
    assert shop.run("status", "--schedule", "--yes")[0] == 0
    (action,) = scaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"]
    assert (action["AutoScalingGroupName"], action["DesiredCapacity"]) == (name, 0)
    assert f"{action['StartTime']:%H:%M}" == "10:10"


def test_a_schedule_without_a_node_group_is_refused(shop: Shop) -> None:
    """Nothing would empty the rack, and somebody would rely on it."""
    code, _, err = shop.run("status", "--schedule", "--yes")
    assert (code, "no EKS node group has the tags" in err) == (16, True)


def test_a_schedule_in_the_past_is_refused(shop: Shop) -> None:
    """It would never run."""
    drained_late(shop)
    shop.moment.now += timedelta(hours=1, minutes=30)
    code, _, err = shop.run("status", "--schedule", "--yes")
    assert (code, "too late for a schedule" in err) == (3, True)


MONEY = ("--max-fee", "300000", "--yes", "--expect-fee", "200000")
EXTEND = (RESERVATION, "--for", "7d", *MONEY, "--wait", "1m")  # some looks, not sixty


def extension(fee: str = "200000") -> dict[str, Any]:
    end = block()["EndDate"]
    return {
        "CapacityBlockExtensionOfferingId": f"cbe-{fee}",
        "CapacityBlockExtensionStartDate": end,
        "CapacityBlockExtensionEndDate": end + timedelta(days=7),
        "CapacityBlockExtensionDurationHours": 168,
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
    }


def test_an_extension_tells_the_new_end(shop: Shop) -> None:
    """The alerts count down to what the fleet file says."""
    shop.market.extensions = [extension("250000"), extension()]
    code, out, _ = shop.run("extend", *EXTEND)
    assert (code, [entry["offer"] for entry in shop.market.ledger]) == (0, ["cbe-200000"])
    assert "capacity_ends_at: 2026-12-24T11:30:00Z" in out


def test_an_extension_warns_of_a_schedule_that_does_not_move(shop: Shop) -> None:
    """A group goes to 0 nodes at the old end, in the middle of a week that was just paid for."""
    shop.market.extensions = [extension()]
    _, _, err = shop.run("extend", *EXTEND)
    said = " ".join(err.split())
    assert "nodes still end at the old time" in said
    assert f"k3fleet capacity status {shop.fleet} --schedule" in said
    shop.found()
    assert "--schedule" not in shop.run("buy", "cbo-dear", *BUY, "--besides", "cb-1")[2]


def test_an_extension_without_an_answer_is_not_bought_twice(shop: Shop) -> None:
    """It takes no tags: it is found by its offer in the reservation's history."""
    shop.market.extensions = [extension()]
    shop.market.after_purchase = lose_the_answer
    code, out, _ = shop.run("extend", *EXTEND, "-o", "json")
    assert (code, json.loads(out)["found_later"], len(shop.market.ledger)) == (0, True, 1)


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [("payment-failed", 17, "its end has not moved"), ("payment-pending", 2, "is pending")],
)
def test_the_payment_of_an_extension_is_waited_for(
    shop: Shop, state: str, code: int, words: str
) -> None:
    """A rack whose end did not move is drained at the old one, or cut off."""
    shop.market.extensions = [extension()]
    shop.market.extension_state = state
    found, _, err = shop.run("extend", *EXTEND)
    assert (found, words in " ".join(err.split()), len(shop.market.ledger)) == (code, True, 1)


def too_dear(shop: Shop) -> None:
    shop.market.extensions = [extension("300000.01")]


def not_offered(shop: Shop) -> None:
    shop.market.extensions = []


def refused_extension(shop: Shop) -> None:
    shop.market.refuses = "CapacityBlockExtensionOfferingExpired"


@pytest.mark.parametrize(
    ("change", "words", "code", "message"),
    [
        (too_dear, EXTEND, 3, "above --max-fee 300000"),
        (not_offered, EXTEND, 17, "no 168 more hours are offered"),
        (refused_extension, EXTEND, 17, "CapacityBlockExtensionOfferingExpired"),
        (expired_block, EXTEND, 3, "its block cb-1 is expired"),
        (gone, EXTEND, 3, "the account has no such block in us-east-1"),
        (healthy, ("cr-ffffffffffffffff0", *EXTEND[1:]), 3, "serves no rack of"),
        (healthy, (RESERVATION, "--for", "36h", *EXTEND[3:]), 3, "not sold for 36 hours"),
        (healthy, EXTEND[:5], 3, "nobody can be asked here"),
    ],
)
def test_no_extension_when_something_is_off(
    shop: Shop, change: Callable[[Shop], None], words: tuple[str, ...], code: int, message: str
) -> None:
    """The same care as with a block."""
    shop.market.extensions = [extension()]
    change(shop)
    found, _, err = shop.run("extend", *words)
    assert (found, shop.market.ledger) == (code, [])
    assert message in " ".join(err.split())


def test_a_fleet_without_aws_is_told_so(shop: Shop) -> None:
    """The demo fleet is what people try first."""
    shop.fleet = Path(__file__).parents[2] / "fleets/demo.yaml"
    code, _, err = shop.run("find")
    assert (code, "no region has cloud: aws" in err) == (3, True)


def test_a_block_that_is_not_listed_yet_is_not_bought_again(shop: Shop) -> None:
    """Ctrl-C while the payment is waited for, and the same command again: EC2 lists it late."""
    shop.market.hidden_looks = 10_000
    shop.found()
    assert shop.run("buy", "cbo-dear", *BUY, "--wait", "1m")[0] == 2
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    assert (code, "is not listed yet" in err, len(shop.market.ledger)) == (3, True, 1)
    shop.moment.now += timedelta(hours=2)  # whatever it was, it would be listed
    assert shop.run("buy", "cbo-dear", *BUY)[0] == 2


@pytest.mark.parametrize("state", ["payment-pending", "payment-succeeded"])
def test_the_same_extension_twice_is_bought_once(shop: Shop, state: str) -> None:
    """The reflex after exit 2, a Ctrl-C or a lost terminal is to run the command again."""
    shop.market.extensions = [extension()]
    shop.market.extension_state = state
    shop.run("extend", *EXTEND)
    code, _, err = shop.run("extend", *EXTEND)
    assert (code, len(shop.market.ledger)) == (3, 1)
    assert "was extended already, until 2026-12-24T11:30:00Z" in " ".join(err.split())


def test_an_extension_of_another_machine_is_seen(shop: Shop) -> None:
    """Two people on two machines have no file in common but the fleet's."""
    shop.market.extensions = [extension()]
    shop.run("extend", *EXTEND)
    shop.work = shop.work.with_name("another")
    assert shop.run("extend", *EXTEND)[0] == 3
    text = shop.fleet.read_text().replace("2026-12-17T11:30:00Z", "2026-12-24T11:30:00Z")
    shop.fleet.write_text(text)  # written down: now somebody may want more
    assert shop.run("extend", *EXTEND)[0] == 0
    assert len(shop.market.ledger) == 2


def test_no_extension_without_a_written_end(shop: Shop) -> None:
    """By it a second one is told from the first."""
    shop.market.extensions = [extension()]
    text = shop.fleet.read_text().replace("        capacity_ends_at: 2026-12-17T11:30:00Z\n", "")
    shop.fleet.write_text(text)
    code, _, err = shop.run("extend", *EXTEND)
    assert (code, "no capacity_ends_at" in err, shop.market.ledger) == (3, True, [])


def test_a_receipt_without_room_is_no_purchase_that_failed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 4 and "nothing is bought" would be believed; the money is gone."""
    shop.found()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    shop.market.after_purchase = lambda: monkeypatch.setattr("os.fsync", full)
    code, _, err = shop.run("buy", "cbo-dear", *BUY)
    told = " ".join(err.split())
    assert (code, "was bought (cr-00000000100000000), but its receipt" in told) == (18, True)
    monkeypatch.undo()
    code, out, _ = shop.run("buy", "cbo-dear", *BUY, "-o", "json")
    assert (code, json.loads(out)["found_later"], len(shop.market.ledger)) == (0, True, 1)


def test_a_cloud_that_goes_away_while_the_payment_is_waited_for_hides_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is bought: what to write into the fleet file is told in any case."""
    shop.found()

    def away(*_: Any) -> Any:
        raise EC2ClientError("ExpiredToken", "The security token has expired")

    def sold() -> None:
        name = "moto.ec2.responses.EC2Response.describe_capacity_blocks"
        monkeypatch.setattr(name, away)

    shop.market.after_purchase = sold
    code, out, err = shop.run("buy", "cbo-dear", *BUY)
    assert (code, "capacity: {reservation: cr-00000000100000000" in out) == (2, True)
    assert "the credentials have expired" in err


@pytest.mark.parametrize("fee", ["500000,00", "1e30", "0.1234567", "1,00", "\u0665\u0660", "1_0"])
def test_a_sum_that_may_be_read_in_two_ways_is_none(shop: Shop, fee: str) -> None:
    """With a decimal comma the limit would be a hundred times what was meant."""
    shop.found()
    code, _, err = shop.run("buy", "cbo-dear", "--max-fee", fee, *BUY[2:])
    assert (code, shop.market.ledger) == (3, [])
    assert "is no sum of money" in err


def test_a_closed_standard_input_is_nobody_to_ask(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python has no object for it then (`<&-`)."""
    shop.found()
    monkeypatch.setattr("sys.stdin", None)
    for verb, words in (("buy", ("cbo-dear", *BUY[:2])), ("find", ("--opt-in",))):
        shop.market.opted_in = ["us-east-1-dfw-2"] if verb == "buy" else []
        code, _, err = shop.run(verb, *words)
        assert (code, "nobody can be asked here" in err) == (3, True)
    assert shop.market.ledger == []


def test_a_wait_of_ages_is_refused_before_anything_is_bought(shop: Shop) -> None:
    """After the purchase it would end in a traceback."""
    shop.found()
    code, _, err = shop.run("buy", "cbo-dear", *BUY, "--wait", "999999999999d")
    assert (code, "longer than ten years" in err, shop.market.ledger) == (3, True, [])


@pytest.mark.usefixtures("no_session")
def test_an_address_that_is_none_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the environment or ~/.aws/config; its password stays there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "ftp-user:s3cr3t@")
    code, _, err = shop.run("status")
    assert (code, "Check AWS_ENDPOINT_URL" in err) == (16, True)
