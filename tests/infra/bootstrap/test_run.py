"""Making the place of Pulumi's state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from aws_account import ACCOUNT, OTHER_ACCOUNT, Account

from fleet.errors import AccountError, ConfigError, StateError
from fleet.spec import FleetSpec
from fleet.state_address import Backend
from infra.bootstrap.run import Survey, carry_out, make_folder, missing_folder, survey

SpecOf = Callable[..., FleetSpec]
EVERYTHING = [
    *("key", "rotation", "alias", "bucket"),
    *("public access", "ownership", "encryption", "versioning", "policy", "lifecycle", "tags"),
]


def look(account: Account, spec: FleetSpec) -> Survey:
    location = spec.state.location
    assert location is not None
    return survey(spec, location, account.aws)


def run(account: Account, spec: FleetSpec) -> Survey:
    found = look(account, spec)
    carry_out(found, account.aws, say=lambda _line: None, sleep=lambda _seconds: None)
    return found


def names(found: Survey) -> list[str]:
    return [change.name for change in found.changes]


def test_an_empty_account_gets_a_key_and_a_bucket(account: Account, spec_of: SpecOf) -> None:
    """What Pulumi needs before its first update."""
    assert names(run(account, spec_of())) == EVERYTHING
    s3, kms = account.client("s3"), account.client("kms")
    key = kms.describe_key(KeyId="alias/k3-state")["KeyMetadata"]
    assert key["MultiRegion"] is True
    assert kms.get_key_rotation_status(KeyId=key["KeyId"])["KeyRotationEnabled"] is True
    at = {"Bucket": "k3-state"}
    assert s3.get_bucket_versioning(**at)["Status"] == "Enabled"
    assert set(s3.get_public_access_block(**at)["PublicAccessBlockConfiguration"].values()) == {
        True
    }
    (rule,) = s3.get_bucket_encryption(**at)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": key["Arn"],
    }
    (control,) = s3.get_bucket_ownership_controls(**at)["OwnershipControls"]["Rules"]
    assert control == {"ObjectOwnership": "BucketOwnerEnforced"}


def test_a_second_run_changes_nothing(account: Account, spec_of: SpecOf) -> None:
    """It is in every team's pipeline."""
    run(account, spec_of())
    account.calls.clear()
    assert run(account, spec_of()).changes == ()
    assert account.changes == []


@pytest.mark.parametrize("whole", [{"Filter": {}}, {"Filter": {"Prefix": ""}}, {"Prefix": ""}])
def test_a_lifecycle_that_says_the_same_is_left(
    account: Account, spec_of: SpecOf, whole: dict[str, object]
) -> None:
    """Stores give rules back in an order and a spelling of their own."""
    run(account, spec_of())
    told = account.sent["PutBucketLifecycleConfiguration"]["LifecycleConfiguration"]
    [ours] = told["Rules"]
    spelt = {**{key: value for key, value in ours.items() if key != "Filter"}, **whole}
    theirs = {"ID": "a-team", "Status": "Enabled", "Filter": {"Prefix": "logs/"}}
    for rules in ([spelt, theirs], [theirs, spelt]):
        told["Rules"] = rules
        assert look(account, spec_of()).changes == ()
    told["Rules"] = [{**spelt, "Status": "Disabled"}, theirs]
    assert names(look(account, spec_of())) == ["lifecycle"]


def test_a_look_changes_nothing(account: Account, spec_of: SpecOf) -> None:
    """The list is shown before anybody is asked."""
    look(account, spec_of())
    assert account.changes == []


@pytest.mark.parametrize("calls", range(1, len(EVERYTHING)))
def test_an_interrupted_run_is_completed_by_the_next(
    account: Account, spec_of: SpecOf, calls: int
) -> None:
    """Wherever the line was cut, there is one key and one bucket in the end."""
    account.broken_after = calls
    with pytest.raises(KeyboardInterrupt):
        run(account, spec_of())
    account.broken_after = None
    run(account, spec_of())
    assert look(account, spec_of()).changes == ()
    assert len(account.client("kms").list_keys()["Keys"]) == 1


def test_a_bucket_is_made_with_its_tags_on_it(account: Account, spec_of: SpecOf) -> None:
    """A run that ends right after it leaves a bucket that the next one knows."""
    run(account, spec_of())
    call = account.sent["CreateBucket"]
    tags = {tag["Key"]: tag["Value"] for tag in call["CreateBucketConfiguration"]["Tags"]}
    assert tags["k3fleet:managed-by"] == "k3fleet"
    assert call["ObjectOwnership"] == "BucketOwnerEnforced"


def test_what_somebody_changed_is_set_right(account: Account, spec_of: SpecOf) -> None:
    """And nothing else is written."""
    run(account, spec_of())
    s3 = account.client("s3")
    s3.put_bucket_versioning(Bucket="k3-state", VersioningConfiguration={"Status": "Suspended"})
    s3.delete_public_access_block(Bucket="k3-state")
    assert names(run(account, spec_of())) == ["public access", "versioning"]
    assert look(account, spec_of()).changes == ()


def test_what_others_added_stays(account: Account, spec_of: SpecOf) -> None:
    """A team's own statement, rule or tag is no fault."""
    run(account, spec_of())
    s3 = account.client("s3")
    policy = json.loads(s3.get_bucket_policy(Bucket="k3-state")["Policy"])
    own = {
        "Sid": "Audit",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutBucketAcl",
        "Resource": "arn:aws:s3:::k3-state",
    }
    policy["Statement"] = [own, policy["Statement"][0]]
    s3.put_bucket_policy(Bucket="k3-state", Policy=json.dumps(policy))
    assert names(run(account, spec_of())) == ["policy"]
    after = json.loads(s3.get_bucket_policy(Bucket="k3-state")["Policy"])
    assert own in after["Statement"]
    assert len(after["Statement"]) == 6


def test_a_bucket_of_another_account_is_refused(account: Account, spec_of: SpecOf) -> None:
    """The state, with the secrets in it, would go to whoever took the name first."""
    account.foreign.add("k3-state")
    with pytest.raises(AccountError, match=rf"another account's than {ACCOUNT}"):
        look(account, spec_of())
    assert account.changes == []


def test_credentials_of_another_account_are_refused(account: Account, spec_of: SpecOf) -> None:
    """Nothing is made in the account that the shell happens to be signed in to."""
    shared = {"account": OTHER_ACCOUNT, "region": "us-west-2"}
    with pytest.raises(AccountError, match=rf"of account {ACCOUNT}.* names {OTHER_ACCOUNT}"):
        look(account, spec_of(**{"global": shared}))
    assert account.changes == []


def test_a_bucket_of_others_without_versioning_is_named(account: Account, spec_of: SpecOf) -> None:
    """It is its owner's to change, and he is told how."""
    account.client("s3").create_bucket(
        Bucket="k3-state", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
    )
    with pytest.raises(StateError) as caught:
        look(account, spec_of())
    assert "versioning: turn versioning on: aws s3api put-bucket-versioning" in str(caught.value)
    assert account.changes == []


def test_a_fit_bucket_of_others_is_used_as_it_is(account: Account, spec_of: SpecOf) -> None:
    """Only the key for the secrets is made."""
    s3 = account.client("s3")
    s3.create_bucket(
        Bucket="k3-state", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
    )
    s3.put_bucket_versioning(Bucket="k3-state", VersioningConfiguration={"Status": "Enabled"})
    s3.put_public_access_block(
        Bucket="k3-state",
        PublicAccessBlockConfiguration={
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
    )
    assert names(run(account, spec_of())) == ["key", "rotation", "alias"]
    assert look(account, spec_of(provider="passphrase")).changes == ()


def test_a_bucket_in_another_region_is_refused(account: Account, spec_of: SpecOf) -> None:
    """Pulumi would be redirected at each call, or fail."""
    account.client("s3", "eu-west-1").create_bucket(
        Bucket="k3-state", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    with pytest.raises(ConfigError, match=r"is in eu-west-1, not in us-west-2"):
        look(account, spec_of())


def test_a_bucket_elsewhere_than_its_key_gets_a_replica(account: Account, spec_of: SpecOf) -> None:
    """S3 encrypts with keys of its own region only."""
    spec = spec_of(backend="s3://k3-state?region=us-east-1")
    found = run(account, spec)
    assert "replica" in names(found)
    kms = account.client("kms", "us-east-1")
    s3 = account.client("s3", "us-east-1")
    (rule,) = s3.get_bucket_encryption(Bucket="k3-state")["ServerSideEncryptionConfiguration"][
        "Rules"
    ]
    arn = rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"]
    assert arn.split(":")[3] == "us-east-1"
    assert kms.describe_key(KeyId=arn)["KeyMetadata"]["MultiRegion"] is True
    assert look(account, spec).changes == ()


def test_a_key_of_one_region_is_not_stretched(account: Account, spec_of: SpecOf) -> None:
    """It cannot be replicated; a second key would not open what the first one closed."""
    kms = account.client("kms")
    key = kms.create_key(KeyUsage="ENCRYPT_DECRYPT")["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/k3-state", TargetKeyId=key)
    with pytest.raises(ConfigError, match=r"in us-west-2 only, and the bucket in us-east-1"):
        look(account, spec_of(backend="s3://k3-state?region=us-east-1"))
    assert "key" not in names(look(account, spec_of()))


def test_a_dying_key_is_refused(account: Account, spec_of: SpecOf) -> None:
    """In a week everything that it encrypts would be lost."""
    run(account, spec_of())
    kms = account.client("kms")
    key = kms.describe_key(KeyId="alias/k3-state")["KeyMetadata"]["KeyId"]
    kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    with pytest.raises(StateError, match=r"cancel-key-deletion"):
        look(account, spec_of())


def test_a_key_for_signing_is_refused(account: Account, spec_of: SpecOf) -> None:
    """Pulumi would find out at the first secret."""
    kms = account.client("kms")
    made = kms.create_key(KeyUsage="SIGN_VERIFY", KeySpec="RSA_2048")["KeyMetadata"]
    kms.create_alias(AliasName="alias/k3-state", TargetKeyId=made["KeyId"])
    with pytest.raises(ConfigError, match=r"RSA_2048 for SIGN_VERIFY"):
        look(account, spec_of())


def test_a_key_that_is_named_by_id_is_not_made(account: Account, spec_of: SpecOf) -> None:
    """An id cannot be chosen."""
    key = "1234abcd-12ab-34cd-56ef-1234567890ab"
    with pytest.raises(ConfigError, match=r"there is no such key in us-west-2"):
        look(account, spec_of(provider=f"awskms://{key}?region=us-west-2"))


def test_what_the_role_may_not_do_is_named_without_its_answer(
    account: Account, spec_of: SpecOf
) -> None:
    """Answers quote policies and ids; the name of the call is what has to be asked for."""
    account.denied.add("CreateKey")
    with pytest.raises(AccountError, match=r"may not call CreateKey") as caught:
        run(account, spec_of())
    assert "hunter2" not in str(caught.value)


def test_a_folder_is_made_for_its_owner(tmp_path: Path) -> None:
    """The state may hold what others must not read."""
    folder = tmp_path / "a/state"
    backend = Backend(kind="file", bucket="", prefix=str(folder), parameters={})
    assert len(missing_folder(backend)) == 1
    make_folder(backend)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert missing_folder(backend) == ()


def test_a_folder_under_a_file_is_refused(tmp_path: Path) -> None:
    """Said as what it is."""
    (tmp_path / "a").write_text("")
    backend = Backend(kind="file", bucket="", prefix=str(tmp_path / "a/b"), parameters={})
    with pytest.raises(StateError, match=r"cannot be made \(Not a directory\)"):
        make_folder(backend)
