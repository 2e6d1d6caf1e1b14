"""Say who may open a connection to whom in a region's namespace.

Only incoming traffic is restricted. Outgoing traffic is not: pods need the API
server and the name service, whose addresses no chart can know, and the weights
stage needs the hub, which is known by name only. A load generator is the exception:
it asks the gateway, and must not be able to ask anybody else; its master, which sends no load,
reads the page on which frontends count.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.load_generator import MASTER, MASTER_PORT, WORKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Who the peer is, and which port is asked; no port means every one, no peer everybody."""

    apps: tuple[str, ...] = ()  # of this namespace
    namespaces: tuple[str, ...] = ()
    port: int | None = None
    protocols: tuple[str, ...] = ("TCP",)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """What one app of the namespace takes in, and may ask for; no app means every pod."""

    name: str
    app: str | None
    reason: str
    allowed: tuple[Allowed, ...]
    asks: tuple[Allowed, ...] | None = None  # None: whatever it likes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where a region's pods listen on ports that do not change."""

    gateway: int
    frontend: int | None  # None: no frontends, the gateway asks engines
    engine: int  # health and metrics; without frontends the API


def network_policies(ports: Ports, monitoring: str) -> tuple[NetworkPolicy, ...]:
    """Close a namespace but for the way of a request and the way of its metrics.

    Dynamo's request plane, its answers (an engine calls the frontend back) and its
    cache events listen on ports that the kernel picks, so between frontends and
    engines it is the peer that is checked and not the port.
    """
    gateway = NetworkPolicy(
        name="gateway", app="gateway", reason="The way in", allowed=(Allowed(port=ports.gateway),)
    )
    scraped = Allowed(namespaces=(monitoring,), port=ports.engine)
    if ports.frontend is None:
        asked = Allowed(apps=("gateway",), port=ports.engine)
        return (_DENY, gateway, _engine(asked, Allowed(apps=("engine",)), scraped))
    frontend = NetworkPolicy(
        name="frontend",
        app="frontend",
        reason="Requests come through the gateway; engines call back with their answers",
        allowed=(
            Allowed(apps=("gateway",), port=ports.frontend),
            Allowed(apps=("engine", "frontend")),
            Allowed(namespaces=(monitoring,), port=ports.frontend),
        ),
    )
    return (_DENY, gateway, frontend, _engine(Allowed(apps=("frontend", "engine")), scraped))


def load_policies(ports: Ports) -> tuple[NetworkPolicy, ...]:
    """Let a load generator ask the gateway, its workers their master, and that one the counters.

    Names are resolved wherever the cluster has its name service.
    """
    names = Allowed(port=53, protocols=("UDP", "TCP"))
    return (
        *_counters(ports.frontend),
        NetworkPolicy(
            name=MASTER,
            app=MASTER,
            reason="Its page has no password: only port-forward reaches it",
            allowed=(Allowed(apps=(WORKER,), port=MASTER_PORT),),
            asks=()
            if ports.frontend is None
            else (Allowed(apps=("frontend",), port=ports.frontend), names),
        ),
        NetworkPolicy(
            name=WORKER,
            app=WORKER,
            reason="It stands for clients, which have no way around the gateway either",
            allowed=(),
            asks=(
                Allowed(apps=("gateway",), port=ports.gateway),
                Allowed(apps=(MASTER,), port=MASTER_PORT),
                names,
            ),
        ),
    )


def _counters(port: int | None) -> tuple[NetworkPolicy, ...]:
    if port is None:
        return ()
    counted = NetworkPolicy(
        name="frontend-counters",
        app="frontend",
        reason="A load test compares what frontends count with what their answers say",
        allowed=(Allowed(apps=(MASTER,), port=port),),
    )
    return (counted,)


_DENY = NetworkPolicy(
    name="default-deny", app=None, reason="What no other policy names is closed", allowed=()
)


def _engine(*allowed: Allowed) -> NetworkPolicy:
    return NetworkPolicy(
        name="engine",
        app="engine",
        reason="Two nodes are one replica, and prefill feeds decode",
        allowed=allowed,
    )
