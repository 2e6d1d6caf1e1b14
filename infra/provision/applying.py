"""Do what was planned: layer by layer in each region, until one fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fleet.errors import FleetError, RefusedError
from infra.provision.guard import told
from infra.provision.planning import Planning, policy_words
from infra.provision.progress import Tail, Watch
from infra.provision.repair import repairing
from infra.provision.request import Done, Planned, StackPlan, StackResult
from infra.stack_process import Track
from infra.stacks import Action, How, StackRunner, UpResult


@dataclass(frozen=True, kw_only=True)
class Applying:
    """Applies plans to the stacks of a fleet."""

    planning: Planning
    # Plan again right before: somebody was asked in between, and files and clusters change.
    again: bool = False

    def up(self, planned: Planned) -> Track[Done]:
        """Update a region's layers in their order."""
        return (yield from self._each(planned, self._updated))

    def destroy(self, planned: Planned) -> Track[Done]:
        """Take a region's layers down, the last one first."""
        return (yield from self._each(planned, self._destroyed))

    def _each(
        self, planned: Planned, act: Callable[[str, StackPlan], Track[UpResult]]
    ) -> Track[Done]:
        results: list[StackResult] = []
        error: FleetError | None = None
        for plan in planned.stacks:
            if error:
                results.append(StackResult(stack=plan.stack, layer=plan.layer, status="skipped"))
                continue
            try:
                ended = yield from act(planned.region, plan)
                results.append(replace(StackResult.of(plan.layer, ended), stays=plan.stays))
            except FleetError as caught:
                error = caught
                why = str(caught)
                failed = StackResult(stack=plan.stack, layer=plan.layer, status="failed", why=why)
                results.append(failed)
        return Done(region=planned.region, stacks=tuple(results), error=error)

    def _updated(self, region: str, plan: StackPlan) -> Track[UpResult]:
        runner = self.planning.stacks.runner(plan.layer, region)
        yield from runner.preparing()
        for urn in plan.lets_go:
            yield from runner.letting_go(urn)
        repaired = plan.pending or runner.unclean.exists()
        if plan.idle and not repaired:
            return UpResult(stack=plan.stack, changes=plan.changes, outputs={}, seconds=0.0)
        if repaired:
            yield from repairing(self.planning.stacks, runner)
        moved = bool(plan.lets_go) or repaired
        if self.again or moved or (plan.put_off and not plan.new):
            now = yield from self.planning.stack(plan.layer, region)
            if now.findings:
                raise RefusedError(told(now.findings))
            if not moved and not plan.put_off and now.touched != plan.touched:
                raise RefusedError(
                    f"{plan.stack}: what would change is no longer what was shown. Run it again."
                )
        return (yield from self._perform(runner, "up", policy_words(self.planning.request)))

    def _destroyed(self, region: str, plan: StackPlan) -> Track[UpResult]:
        runner = self.planning.stacks.runner(plan.layer, region)
        yield from runner.preparing()
        for urn in plan.lets_go:
            yield from runner.letting_go(urn)
        if plan.pending or runner.unclean.exists():
            yield from repairing(self.planning.stacks, runner)
        return (yield from self._perform(runner, "destroy", ()))

    def _perform(
        self, runner: StackRunner, action: Action, words: tuple[str, ...]
    ) -> Track[UpResult]:
        ground = self.planning.stacks.ground
        refresh = self.planning.request.refresh

        def watch(tail: Tail) -> Watch:
            return Watch(
                stack=runner.stack, tail=tail, reporter=ground.reporter, clock=ground.clock
            )

        how = How(refresh=refresh, words=words, watch=lambda events: watch(Tail(events)))
        return (yield from runner.performing(action, how))
