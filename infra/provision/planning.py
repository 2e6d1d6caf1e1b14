"""Find out what an action would do, and whether it may: nothing is changed here.

Each region is a track: its layers one after the other, beside other regions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleet.errors import FleetError, RefusedError
from infra.declared import logical_name
from infra.options import Layer
from infra.outputs import Remembered
from infra.provision.checks import require_account, require_cluster, turned_replicas
from infra.provision.ground import IN_CLUSTER, FleetStacks
from infra.provision.guard import Finding, Guard
from infra.provision.request import Planned, Request, StackPlan
from infra.provision.staying import staying
from infra.render import render_region
from infra.settings import Settings, StackLayer
from infra.stack_events import Touched
from infra.stack_process import Track
from infra.stack_state import StackState, StateResource
from infra.stacks import How, StackError, StackRunner


@dataclass(frozen=True, kw_only=True)
class Planning:
    """Plans an action on the stacks of a fleet."""

    stacks: FleetStacks
    request: Request
    protected: frozenset[str]  # kinds of Kubernetes, type tokens of clouds

    def up(self, region: str, layers: tuple[StackLayer, ...]) -> Track[Planned]:
        """Plan an update of a region's layers."""
        plans: list[StackPlan] = []
        new = False
        try:
            require_account(self.stacks, region)
            for layer in layers:
                above = new and layer in IN_CLUSTER  # it stands on what is not there yet
                if above or self._nothing_to_lose(layer, region):
                    plan = yield from self._put_off(layer, region, above=above)
                else:
                    plan = yield from self.stack(layer, region)
                new = new or plan.new
                plans.append(plan)
        except FleetError as error:
            return Planned(region=region, stacks=tuple(plans), error=error)
        return Planned(region=region, stacks=tuple(plans))

    def destroy(self, region: str, layers: tuple[StackLayer, ...]) -> Track[Planned]:
        """Plan the end of a region's layers, the last one first."""
        plans: list[StackPlan] = []
        try:
            require_account(self.stacks, region)
            if region:
                yield from self._require_alone(region, layers)
            for layer in filter(lambda one: self._exists(one, region), reversed(layers)):
                plan = yield from self._destroyed(layer, region)
                plans.append(plan)
        except FleetError as error:
            return Planned(region=region, stacks=tuple(plans), error=error)
        return Planned(region=region, stacks=tuple(plans))

    def stack(self, layer: StackLayer, region: str) -> Track[StackPlan]:
        """Plan the update of one stack."""
        new = not self._exists(layer, region)
        runner = self.stacks.runner(layer, region)
        yield from runner.preparing()
        deployed = Remembered() if new else (yield from runner.remembering())
        require_cluster(self.stacks, runner, deployed)
        guard = Guard(
            allowed=self.request.allowed,
            protected_kinds=self.protected,
            owned=turned_replicas(self.stacks, runner, deployed),
        )
        how = How(refresh=self.request.refresh, words=policy_words(self.request))
        try:
            result = yield from runner.performing("preview", how)
        except StackError as error:
            return self._blocked(runner, guard, error)
        return StackPlan(
            stack=runner.stack,
            layer=layer,
            new=new,
            changes=result.changes,
            touched=result.touched,
            findings=guard.findings(runner.stack, result.touched),
            pending=result.pending,
            idle=result.idle and not result.pending and not runner.unclean.exists(),
        )

    def _destroyed(self, layer: StackLayer, region: str) -> Track[StackPlan]:
        runner = self.stacks.runner(layer, region)
        yield from runner.preparing()
        require_cluster(self.stacks, runner, (yield from runner.remembering()))
        result = yield from runner.performing("preview-destroy", How())
        state = yield from runner.exporting()
        named = self.request.allowed.delete
        let_go = [item for item in protected_in(state) if named & {item.name, item.urn}]
        guard = Guard(allowed=self.request.allowed, protected_kinds=self.protected)
        return StackPlan(
            stack=runner.stack,
            layer=layer,
            changes=result.changes,
            touched=(*result.touched, *let_go),
            findings=guard.leftover(runner.stack, result.touched),
            lets_go=tuple(item.urn for item in let_go),
            stays=staying(state, (*result.touched, *let_go)),
            pending=result.pending,
        )

    def _blocked(self, runner: StackRunner, guard: Guard, error: StackError) -> StackPlan:
        """Turn the engine's refusal to delete what is protected into findings, or permission."""
        named = [_deleted(urn) for urn in error.outcome.blocked]
        if not named:
            raise error
        let_go = [item for item in named if guard.allowed.has("delete", item, exactly=True)]
        findings = guard.findings(runner.stack, (*error.outcome.touched, *named))
        return StackPlan(
            stack=runner.stack,
            layer=runner.layer,
            touched=(*error.outcome.touched, *named),
            findings=findings,
            lets_go=tuple(item.urn for item in let_go),
        )

    def _require_alone(self, region: str, layers: tuple[StackLayer, ...]) -> Track[None]:
        """Raise RefusedError when another layer still stands on those that are to go."""
        for above in _above(layers):
            if not self._exists(above, region):
                continue
            runner = self.stacks.bare(above, region)
            if any(_stands(item) for item in (yield from runner.exporting()).resources):
                raise RefusedError(
                    f"{runner.stack}: still stands on what would be destroyed. "
                    f"Destroy it first, or both: leave --layer {layers[-1]} out."
                )

    def _nothing_to_lose(self, layer: StackLayer, region: str) -> bool:
        """Say whether a plan could neither find what to refuse nor be read by anybody."""
        silent = self.request.unasked and not self.request.policy_packs
        return silent and layer in IN_CLUSTER and not self._exists(layer, region)

    def _put_off(self, layer: StackLayer, region: str, *, above: bool) -> Track[StackPlan]:
        """Leave a layer for later; a cluster that is there already is looked at all the same.

        Of a new stack the rendered objects say what comes, without an engine.
        """
        new = not self._exists(layer, region)
        bare = self.stacks.bare(layer, region)
        if above and not self.stacks.region(region).is_there:
            return StackPlan(stack=bare.stack, layer=layer, new=new, put_off=True)
        runner = self.stacks.runner(layer, region)
        deployed = Remembered() if new else (yield from runner.remembering())
        require_cluster(self.stacks, runner, deployed)
        touched = self._rendered(runner) if new else ()
        return StackPlan(
            stack=bare.stack,
            layer=layer,
            new=new,
            put_off=True,
            changes={"create": len(touched)} if touched else {},
            touched=touched,
        )

    def _rendered(self, runner: StackRunner) -> tuple[Touched, ...]:
        settings = runner.settings
        if not isinstance(settings, Settings) or runner.layer not in IN_CLUSTER:
            return ()
        layer: Layer = "platform" if runner.layer == "platform" else "serving"
        objects = render_region(self.stacks.fleet, settings.region, layer, settings.options)
        return tuple(
            Touched(operation="create", kind=str(item["kind"]), name=logical_name(item))
            for item in objects
        )

    def _exists(self, layer: StackLayer, region: str) -> bool:
        """Say whether a stack was created; where this cannot be seen, it counts as there."""
        return self.stacks.store.exists(self.stacks.bare(layer, region).name) is not False


def policy_words(request: Request) -> tuple[str, ...]:
    """Give the words with which Pulumi runs policy packs."""
    return tuple(word for pack in request.policy_packs for word in ("--policy-pack", pack))


def refused(plans: Iterable[Planned]) -> tuple[Finding, ...]:
    """List everything that was not allowed."""
    return tuple(one for plan in plans for stack in plan.stacks for one in stack.findings)


def protected_in(state: StackState) -> tuple[Touched, ...]:
    """Find what is protected in a stack."""
    return tuple(
        replace(_deleted(item.urn), type=item.type, retained=item.retained)
        for item in state.resources
        if item.protect
    )


def _deleted(urn: str) -> Touched:
    type_token = urn.split("::")[2].rpartition("$")[2]
    return Touched(
        operation="delete",
        kind=type_token.rpartition(":")[2],
        name=urn.rpartition("::")[2],
        urn=urn,
        type=type_token,
        protected=True,
    )


def _above(layers: tuple[StackLayer, ...]) -> tuple[StackLayer, ...]:
    order: tuple[StackLayer, ...] = ("cluster", "platform", "serving")
    lowest = min((order.index(layer) for layer in layers if layer in order), default=len(order))
    return tuple(layer for layer in order[lowest + 1 :] if layer not in layers)


def _stands(item: StateResource) -> bool:
    """Say whether a resource is one that a teardown would take away."""
    return item.is_ours and not item.protect
