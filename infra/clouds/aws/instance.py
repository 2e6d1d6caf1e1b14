"""Say what all nodes have in common: an encrypted disk, metadata by session, tags."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import yaml
from pulumi_aws import ec2

# What a launch template can tag; the provider's default tags stop at the template itself.
_TAGGED = ("instance", "volume", "network-interface")
# A fixed one, so that the same user data is the same text in every run.
_BOUNDARY = "k3fleet"


def root_disk(size_gib: int, key: str | None) -> ec2.LaunchTemplateBlockDeviceMappingArgs:
    """Describe the root disk of a node with Amazon Linux; without a key, the account's own."""
    return ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name="/dev/xvda",
        ebs=ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_size=size_gib,
            volume_type="gp3",
            encrypted="true",
            kms_key_id=key,
            delete_on_termination="true",
        ),
    )


def metadata_by_session() -> ec2.LaunchTemplateMetadataOptionsArgs:
    """Ask for IMDSv2, and keep pods, which are one hop further, from the node's role."""
    return ec2.LaunchTemplateMetadataOptionsArgs(
        http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
    )


def tagged(tags: Mapping[str, str]) -> list[ec2.LaunchTemplateTagSpecificationArgs]:
    """Tag what is made from a template."""
    return [
        ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=dict(tags))
        for kind in _TAGGED
    ]


def user_data(node_config: Mapping[str, object]) -> str:
    """Write what nodeadm is told, beside what EKS itself adds, in base64."""
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": node_config,
    }
    message = MIMEMultipart(boundary=_BOUNDARY)
    part = MIMEText(yaml.safe_dump(config, sort_keys=False))
    part.replace_header("Content-Type", "application/node.eks.aws")
    message.attach(part)
    return base64.b64encode(message.as_bytes()).decode()
