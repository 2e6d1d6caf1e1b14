"""The lab's cluster DNS: answers for the headless Services of one namespace, nothing else.

A name `<service>.<namespace>.svc.cluster.local` resolves to the loopback addresses of the ready
pods that the Service selects, as a headless Service does in a cluster. Everything else is
NXDOMAIN: the lab never asks the machine's resolver.
"""

from __future__ import annotations

import socket
import threading

import dns.flags
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
from dns.exception import DNSException
from lightkube import Client
from lightkube.resources.core_v1 import Service

from lab.network import loopback_address
from lab.pods import PodStore

CLUSTER_DOMAIN = "svc.cluster.local"
TTL_S = 1


class ClusterDns:
    """Serves A records over UDP on a loopback address."""

    def __init__(self, client: Client, namespace: str, store: PodStore) -> None:
        self._client = client
        self._namespace = namespace
        self._store = store
        self._selectors: dict[str, dict[str, str]] = {}

    def serve(self, address: str, port: int, stop: threading.Event) -> None:
        """Answer queries until told to stop."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind((address, port))
            server.settimeout(0.5)
            while not stop.is_set():
                try:
                    data, sender = server.recvfrom(4096)
                except TimeoutError:
                    continue
                answer = self._answer(data)
                if answer is not None:
                    server.sendto(answer, sender)

    def _answer(self, data: bytes) -> bytes | None:
        try:
            query = dns.message.from_wire(data)
            question = query.question[0]
        except (DNSException, IndexError):
            return None
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.AA
        addresses = self.addresses(question.name.to_text().rstrip("."))
        if addresses is None:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        elif addresses and question.rdtype == dns.rdatatype.A:
            reply.answer.append(
                dns.rrset.from_text_list(
                    question.name, TTL_S, dns.rdataclass.IN, dns.rdatatype.A, list(addresses)
                )
            )
        return reply.to_wire()

    def addresses(self, name: str) -> tuple[str, ...] | None:
        """Return the addresses behind a name, or nothing when there is no such Service."""
        suffix = f".{self._namespace}.{CLUSTER_DOMAIN}"
        if not name.lower().endswith(suffix):
            return None
        selector = self._selector(name[: -len(suffix)].lower())
        if selector is None:
            return None
        return tuple(
            sorted(
                loopback_address(pod.address)
                for pod in self._store.all()
                if pod.address
                and pod.ready
                and not pod.deleting
                and selector.items() <= dict(pod.labels).items()
            )
        )

    def _selector(self, service: str) -> dict[str, str] | None:
        if service not in self._selectors:
            for found in self._client.list(Service, namespace=self._namespace):
                if found.metadata and found.metadata.name and found.spec and found.spec.selector:
                    self._selectors[found.metadata.name] = dict(found.spec.selector)
        return self._selectors.get(service)
