"""Claims about every call to AWS: its exact parameters, held to botocore's own models.

moto is lenient and the market is ours; botocore refuses a parameter or an answer of another shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from capacity_market import RACK, ZONE, block, offer

from fleet.capacity.deadlines import timetable
from fleet.capacity.offers import Offer, Question
from fleet.capacity.order import Extension, Order
from fleet.errors import AccountError, CloudError
from infra.capacity.aws_access import AwsAccess, check_account
from infra.capacity.aws_blocks import read_blocks, with_health
from infra.capacity.aws_market import ask, extension_offers
from infra.capacity.purchase import BlockTill, ExtensionTill
from infra.capacity.scale_in import RackGroup, find_group, schedule
from infra.capacity.zones import opt_in, read_quotas, read_zones

REGION = "us-east-1"
START = datetime(2026, 12, 10, 11, 30, tzinfo=UTC)
END = START + timedelta(days=7)
CR = "cr-0123456789abcdef0"
SESSION = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing")  # noqa: S106
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
    fee=Decimal(1),
    currency="USD",
)
EXTENSION = Extension(
    id="cbe-1",
    region=REGION,
    reservation=CR,
    starts_at=START,
    ends_at=END,
    fee=Decimal(1),
    currency="USD",
)
ORDER = Order(
    id="o-1",
    fleet="prod",
    fleet_region="us-east",
    racks=("use1-r02", "use1-r03"),
    account="123456789012",
    goods=OFFER,
    max_fee=Decimal(1),
    ordered_at=START,
)
MARKS = {
    "k3fleet:fleet": "prod",
    "k3fleet:region": "us-east",
    "k3fleet:managed-by": "k3fleet",
    "k3fleet:order": "o-1",
    "k3fleet:rack": "use1-r02 use1-r03",
}
PURCHASE = {
    "CapacityBlockOfferingId": "cbo-1",
    "InstancePlatform": "Linux/UNIX",
    "TagSpecifications": [
        {
            "ResourceType": "capacity-block",
            "Tags": [{"Key": key, "Value": value} for key, value in MARKS.items()],
        }
    ],
}
MORE_TIME = {"CapacityBlockExtensionOfferingId": "cbe-1", "CapacityReservationId": CR}


@dataclass
class Stubbed:
    """An access whose clients answer only what is expected of them."""

    access: AwsAccess
    stubs: dict[str, Stubber]

    def expect(self, service: str, operation: str, asked: Any, answer: Any) -> None:
        """Expect one call, and answer it."""
        self.stub(service).add_response(operation, answer, asked)

    def refuse(self, operation: str, code: str, asked: Any) -> None:
        """Expect one call to EC2, and refuse it."""
        self.stub("ec2").add_client_error(
            operation, code, "text", http_status_code=412, expected_params=asked
        )

    def stub(self, service: str) -> Stubber:
        """Give a service's stub; questions and purchases share it here."""
        if service not in self.stubs:
            client = SESSION.client(service, region_name=REGION)
            self.stubs[service] = stub = Stubber(client)
            stub.activate()
            for tries in (1, 5):
                self.access._clients[service, REGION, tries] = client
        return self.stubs[service]


@pytest.fixture
def aws() -> Any:
    stubbed = Stubbed(AwsAccess(session=SESSION), {})
    yield stubbed
    for stub in stubbed.stubs.values():
        stub.assert_no_pending_responses()
        stub.deactivate()


def test_offers_are_asked_for_racks_in_all_zones(aws: Stubbed) -> None:
    """A Local Zone without opt-in is where the racks are."""
    asked = {
        "UltraserverType": RACK,
        "UltraserverCount": 2,
        "CapacityDurationHours": 168,
        "StartDateRange": START,
        "EndDateRange": END,
        "AllAvailabilityZones": True,
    }
    answer = {"CapacityBlockOfferings": [offer("cbo-9", "123456.78", racks=2)]}
    aws.expect("ec2", "describe_capacity_block_offerings", asked, answer)
    question = Question(
        region=REGION,
        rack_type=RACK,
        racks=2,
        hours=168,
        starts_after=START,
        ends_before=END,
    )
    (found,) = ask(aws.access.asking("ec2", REGION), question)
    assert (found.id, found.fee, found.hours) == ("cbo-9", Decimal("123456.78"), 168)


@pytest.mark.parametrize(
    "fault",
    [
        {"UpfrontFee": "lots"},
        {"UpfrontFee": "-1"},
        {"UpfrontFee": "NaN"},
        {"UpfrontFee": "1e999999"},
        {"UltraserverCount": 0},
        {"CurrencyCode": ""},
        {"CapacityBlockDurationHours": 0},
        {"CapacityBlockOfferingId": ""},
    ],
)
def test_an_offer_that_makes_no_sense_is_not_for_sale(aws: Stubbed, fault: dict[str, Any]) -> None:
    """A price that is misread is a price that is paid."""
    answer = {"CapacityBlockOfferings": [offer("cbo-9") | fault]}
    aws.stub("ec2").add_response("describe_capacity_block_offerings", answer)
    question = Question(
        region=REGION, rack_type=RACK, racks=1, hours=168, starts_after=START, ends_before=END
    )
    with pytest.raises(CloudError, match="cannot be understood"):
        ask(aws.access.asking("ec2", REGION), question)


@pytest.mark.parametrize(
    ("operation", "answer", "ask_it", "lacks"),
    [
        (
            "describe_capacity_block_status",
            {"CapacityBlockStatuses": [{"InterconnectStatus": "ok"}]},
            lambda access: with_health(access, REGION, []),
            "CapacityBlockId",
        ),
        (
            "describe_availability_zones",
            {"AvailabilityZones": [{"ZoneType": "local-zone"}]},
            lambda access: read_zones(access, REGION),
            "ZoneName",
        ),
    ],
)
def test_what_an_answer_lacks_is_named(
    aws: Stubbed,
    operation: str,
    answer: dict[str, Any],
    ask_it: Callable[[AwsAccess], object],
    lacks: str,
) -> None:
    """An endpoint that is nearly EC2 ends in a sentence, not in a KeyError."""
    aws.stub("ec2").add_response(operation, answer)
    with pytest.raises(CloudError, match=rf"aws {REGION}: .*has no {lacks}\. Look for a proxy"):
        ask_it(aws.access)


def test_a_tag_without_a_key_hides_no_block(aws: Stubbed) -> None:
    """Blocks are told by their tags; a strange one must not keep the others from being seen."""
    strange = block("cb-1", CR) | {"Tags": [{"Value": "x"}, {"Key": "a", "Value": "b"}]}
    aws.stub("ec2").add_response("describe_capacity_blocks", {"CapacityBlocks": [strange]})
    [found] = read_blocks(aws.access, REGION)
    assert found.tags == {"": "x", "a": "b"}


def test_a_block_is_rehearsed_and_bought_with_the_same_request(aws: Stubbed) -> None:
    """A dry run of another request proves nothing."""
    aws.refuse("purchase_capacity_block", "DryRunOperation", {**PURCHASE, "DryRun": True})
    sold = {"CapacityBlocks": [block("cb-1", CR)]}
    aws.expect("ec2", "purchase_capacity_block", PURCHASE, sold)
    till = BlockTill(access=aws.access, order=ORDER, offer=OFFER)
    till.rehearse()
    assert [(item.block, item.reservations) for item in till.buy()] == [("cb-1", (CR,))]


def test_an_answer_with_a_reservation_only_is_understood(aws: Stubbed) -> None:
    """Blocks of instances are answered so; what is bought must not be lost over it."""
    sold = {"CapacityReservation": {"CapacityReservationId": CR, "EndDate": END}}
    aws.expect("ec2", "purchase_capacity_block", PURCHASE, sold)
    (bought,) = BlockTill(access=aws.access, order=ORDER, offer=OFFER).buy()
    assert (bought.reservations, bought.ends_at) == ((CR,), END)


def test_a_dry_run_that_is_not_allowed_buys_nothing(aws: Stubbed) -> None:
    """Better now than after the price was typed."""
    aws.refuse("purchase_capacity_block", "UnauthorizedOperation", {**PURCHASE, "DryRun": True})
    with pytest.raises(CloudError, match=r"not allowed: PurchaseCapacityBlock.*Nothing was bought"):
        BlockTill(access=aws.access, order=ORDER, offer=OFFER).rehearse()


def test_a_dry_run_that_was_none_is_an_alarm(aws: Stubbed) -> None:
    """AWS always answers a dry run with an error; anything else may have been a purchase."""
    aws.expect("ec2", "purchase_capacity_block", {**PURCHASE, "DryRun": True}, {})
    with pytest.raises(CloudError, match="as if it were none"):
        BlockTill(access=aws.access, order=ORDER, offer=OFFER).rehearse()


def test_an_order_finds_its_own_block_only(aws: Stubbed) -> None:
    """By its mark: fleet and rack are those of other blocks as well."""
    own = [{"Key": "k3fleet:order", "Value": "o-1"}]
    other = [{"Key": "k3fleet:order", "Value": "o-2"}]
    blocks = [block("cb-1", Tags=other), block("cb-2", Tags=own), block("cb-3", Tags=[])]
    aws.expect("ec2", "describe_capacity_blocks", {}, {"CapacityBlocks": blocks})
    found = BlockTill(access=aws.access, order=ORDER, offer=OFFER).find()
    assert [item.block for item in found] == ["cb-2"]


def test_an_extension_is_rehearsed_bought_and_found(aws: Stubbed) -> None:
    """It is known by its offering in the history, and a failed payment does not count."""
    operation = "purchase_capacity_block_extension"
    aws.refuse(operation, "DryRunOperation", {**MORE_TIME, "DryRun": True})
    sold = {
        "CapacityReservationId": CR,
        "CapacityBlockExtensionOfferingId": "cbe-1",
        "CapacityBlockExtensionStatus": "payment-pending",
        "CapacityBlockExtensionEndDate": END,
    }
    failed = {**sold, "CapacityBlockExtensionStatus": "payment-failed"}
    other = {**sold, "CapacityBlockExtensionOfferingId": "cbe-2"}
    aws.expect("ec2", operation, MORE_TIME, {"CapacityBlockExtensions": [sold]})
    aws.expect(
        "ec2",
        "describe_capacity_block_extension_history",
        {"CapacityReservationIds": [CR]},
        {"CapacityBlockExtensions": [failed, other]},
    )
    till = ExtensionTill(access=aws.access, extension=EXTENSION)
    till.rehearse()
    assert [item.ends_at for item in till.buy()] == [END]
    assert till.find() == ()


def test_extensions_are_offered_cheapest_first(aws: Stubbed) -> None:
    """`extend` takes the first."""
    offers = [
        {
            "CapacityBlockExtensionOfferingId": f"cbe-{fee}",
            "CapacityBlockExtensionStartDate": END,
            "CapacityBlockExtensionEndDate": END + timedelta(days=7),
            "UpfrontFee": fee,
            "CurrencyCode": "USD",
        }
        for fee in ("1000", "999.99")
    ]
    aws.expect(
        "ec2",
        "describe_capacity_block_extension_offerings",
        {"CapacityBlockExtensionDurationHours": 168, "CapacityReservationId": CR},
        {"CapacityBlockExtensionOfferings": offers},
    )
    found = extension_offers(aws.access, REGION, CR, 168)
    assert [item.id for item in found] == ["cbe-999.99", "cbe-1000"]


def test_blocks_and_their_health_are_read_page_by_page(aws: Stubbed) -> None:
    """The second page holds the block that ends first."""
    pages = [
        ({}, {"CapacityBlocks": [block("cb-1", CR)], "NextToken": "more"}),
        ({"NextToken": "more"}, {"CapacityBlocks": [block("cb-2")]}),
    ]
    for asked, answer in pages:
        aws.expect("ec2", "describe_capacity_blocks", asked, answer)
    health = {
        "CapacityBlockId": "cb-2",
        "InterconnectStatus": "impaired",
        "TotalCapacity": 18,
        "TotalAvailableCapacity": 17,
        "TotalUnavailableCapacity": 1,
    }
    answer = {"CapacityBlockStatuses": [health]}
    aws.expect("ec2", "describe_capacity_block_status", {}, answer)
    first, second = with_health(aws.access, REGION, read_blocks(aws.access, REGION))
    assert first.health is None
    assert second.health is not None
    assert (second.health.interconnect, second.health.unavailable) == ("impaired", 1)


def test_zones_are_listed_without_opt_in_too(aws: Stubbed) -> None:
    """Otherwise the one that matters is missing."""
    raw = {"ZoneName": ZONE, "GroupName": "us-east-1-dfw-2", "OptInStatus": "not-opted-in"}
    answer = {"AvailabilityZones": [raw]}
    aws.expect("ec2", "describe_availability_zones", {"AllAvailabilityZones": True}, answer)
    assert read_zones(aws.access, REGION)[ZONE].status == "not-opted-in"


def test_opting_in_names_group_and_status(aws: Stubbed) -> None:
    """The only call of `find` that changes something."""
    asked = {"GroupName": "us-east-1-dfw-2", "OptInStatus": "opted-in"}
    aws.expect("ec2", "modify_availability_zone_group", asked, {"Return": True})
    opt_in(aws.access, REGION, "us-east-1-dfw-2")


def test_quotas_are_those_of_ec2(aws: Stubbed) -> None:
    """By name: `Concurrent Capacity Blocks`, whatever its code."""
    quotas = {"Quotas": [{"QuotaName": "Concurrent UltraServer Capacity Blocks", "Value": 2.0}]}
    aws.expect("service-quotas", "list_service_quotas", {"ServiceCode": "ec2"}, quotas)
    assert [quota.value for quota in read_quotas(aws.access, REGION)] == [2.0]


def test_the_end_is_written_to_the_group_of_the_node_group(aws: Stubbed) -> None:
    """The node group that carries fleet and rack, and its group's size, to zero."""
    marks = {"k3fleet:fleet": "prod", "k3fleet:rack": "use1-r01"}
    group = {"tags": marks, "resources": {"autoScalingGroups": [{"name": "eks-x"}]}}
    of = {"clusterName": "us-east"}
    aws.expect("eks", "list_clusters", {}, {"clusters": ["us-east"]})
    aws.expect("eks", "list_nodegroups", of, {"nodegroups": ["system", "r01"]})
    for name, answer in (("system", {"tags": {}}), ("r01", group)):
        asked = {**of, "nodegroupName": name}
        aws.expect("eks", "describe_nodegroup", asked, {"nodegroup": answer})
    found = find_group(aws.access, REGION, "prod", "use1-r01")
    assert found == RackGroup(region=REGION, cluster="us-east", node_group="r01", group="eks-x")
    times = timetable(END, replicas=9, drain_s=900.0)
    action = {
        "AutoScalingGroupName": "eks-x",
        "ScheduledActionName": "k3fleet-empty-before-block-ends",
        "StartTime": END - timedelta(minutes=80),
        "MinSize": 0,
        "DesiredCapacity": 0,
    }
    aws.expect("autoscaling", "put_scheduled_update_group_action", action, {})
    schedule(aws.access, found, times)


def test_the_account_is_checked(aws: Stubbed) -> None:
    """With the wrong profile everything else would look right."""
    aws.expect("sts", "get_caller_identity", {}, {"Account": "999999999999"})
    with pytest.raises(AccountError, match="are of account 999999999999"):
        check_account(aws.access, REGION, "123456789012")


@pytest.mark.parametrize(
    ("code", "message", "exit_code"),
    [
        ("ExpiredToken", "the credentials have expired", 13),
        ("RequestExpired", "the credentials have expired", 13),
        ("AuthFailure", "AWS does not know the credentials", 13),
        ("UnauthorizedOperation", "not allowed: DescribeCapacityBlocks", 13),
        ("InternalError", "DescribeCapacityBlocks: InternalError: text", 16),
    ],
)
def test_refusals_are_told_in_words(aws: Stubbed, code: str, message: str, exit_code: int) -> None:
    """A code alone sends people to a search engine; what is about credentials is 13 everywhere."""
    aws.refuse("describe_capacity_blocks", code, {})
    with pytest.raises(CloudError, match=message) as raised:
        read_blocks(aws.access, REGION)
    assert raised.value.exit_code == exit_code


def test_a_secret_in_an_answer_is_cut(aws: Stubbed) -> None:
    """EC2 encodes a whole policy into the message of a refusal."""
    error = ClientError({"Error": {"Code": "X", "Message": "y" * 5000}}, "DescribeCapacityBlocks")

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    class Client:
        get_paginator: Callable[..., Any] = fail

    aws.access._clients["ec2", REGION, 5] = Client()
    with pytest.raises(CloudError) as raised:
        read_blocks(aws.access, REGION)
    assert len(str(raised.value)) < 500
