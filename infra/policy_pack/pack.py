"""Serve the policies to Pulumi's engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    PolicyProviderResource,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy import Policy as EnginePolicy
from pulumi_policy.proxy import UnknownValueError

from fleet.errors import FleetError
from infra.policy_pack import buckets, encryption, images, protection, racks, regions, secrets, tags
from infra.policy_pack.linted import Linter
from infra.policy_pack.resource import (
    UNKNOWN,
    Fault,
    OfOne,
    OfStack,
    Policy,
    Provider,
    Resource,
)

NAME = "k3fleet"
_PARTS = (buckets, encryption, images, protection, racks, regions, secrets, tags)


def policies(today: date) -> tuple[Policy, ...]:
    """Give all policies; `today` decides which waivers of a fleet file count."""
    return (*chain.from_iterable(part.POLICIES for part in _PARTS), *Linter(today).policies())


def serve(today: date) -> None:
    """Serve until the engine ends; called by the pack's entry file."""
    PolicyPack(NAME, policies=[made for item in policies(today) for made in _engine_policies(item)])


def _engine_policies(policy: Policy) -> Iterable[EnginePolicy]:
    level = EnforcementLevel(policy.level)
    properties = {key: dict(schema) for key, schema in policy.config.items()}
    schema = PolicyConfigSchema(properties=properties) if properties else None
    if policy.one:
        validate = _validate_one(policy.one)
        yield ResourceValidationPolicy(policy.name, policy.title, validate, level, schema)
    if policy.stack:
        judge = _validate_stack(policy.stack)
        yield StackValidationPolicy(policy.name, policy.title, judge, level, schema)


def _validate_one(judge: OfOne) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = Resource(
            type=args.resource_type,
            name=args.name,
            urn=args.urn,
            props=plain(args.props),
            protected=bool(args.opts.protect),
            provider=_provider(args.provider),
        )
        _report(lambda: judge(resource, args.get_config() or {}), report)

    return validate


def _validate_stack(judge: OfStack) -> Callable[[StackValidationArgs, ReportViolation], None]:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        stack = [_of_stack(item) for item in args.resources]
        _report(lambda: judge(stack, args.get_config() or {}), report)

    return validate


def _of_stack(item: PolicyResource) -> Resource:
    return Resource(
        type=item.resource_type,
        name=item.name,
        urn=item.urn,
        props=plain(item.props),
        protected=bool(item.opts.protect),
        provider=_provider(item.provider),
        uses={
            key: tuple(used.urn for used in found)
            for key, found in item.property_dependencies.items()
        },
    )


def _provider(found: PolicyProviderResource | None) -> Provider | None:
    if found is None:
        return None
    return Provider(type=found.resource_type, name=found.name, props=plain(found.props))


def _report(judge: Callable[[], Iterable[Fault]], report: ReportViolation) -> None:
    """Tell each fault; a setting that is wrong is one too, and not a traceback."""
    try:
        for fault in judge():
            report(str(fault), fault.resource.urn or None)
    except FleetError as error:
        report(f"policy pack's settings: {error}", None)


def plain(value: Any) -> Any:
    """Take what the engine sends apart: whole numbers come as floats, unknown ones as errors."""
    if isinstance(value, Mapping):
        return {key: _known(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_known(value, index) for index in range(len(value))]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _known(owner: Any, key: Any) -> Any:
    try:
        return plain(owner[key])
    except UnknownValueError:
        return UNKNOWN
