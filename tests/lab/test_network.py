"""Every address of the lab is on loopback, and no two things share one."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import LabError
from lab.network import LAB_NUMBERS, RegionNetwork, loopback_address, shown_address
from lab.reservation import reserve_network

NETWORKS = st.builds(RegionNetwork, lab=st.sampled_from(LAB_NUMBERS), index=st.integers(0, 15))


@given(NETWORKS, st.integers(0, 4000))
def test_pods_are_on_loopback(network: RegionNetwork, number: int):
    """Load and control traffic must never leave the machine."""
    assert ipaddress.ip_address(network.pod(number)).is_loopback


@given(NETWORKS, st.integers(0, 4000))
def test_the_shown_address_is_not_loopback_and_leads_back(network: RegionNetwork, number: int):
    """The API server refuses loopback addresses in EndpointSlices; DNS needs the way back."""
    shown = shown_address(network.pod(number))
    assert not ipaddress.ip_address(shown).is_loopback
    assert loopback_address(shown) == network.pod(number)


def test_no_two_pods_of_two_regions_share_an_address():
    """Pods listen on the same ports, so each needs an address of its own."""
    networks = [RegionNetwork(lab=64, index=index) for index in range(3)]
    addresses = [network.pod(number) for network in networks for number in range(2000)]
    fixed = [address for n in networks for address in (n.control_plane, n.gateway)]
    assert len({*addresses, *fixed}) == len(addresses) + len(fixed)


def test_a_full_network_says_so():
    """Wrapping around would give one address to two pods."""
    with pytest.raises(LabError, match="full"):
        RegionNetwork(lab=64, index=0).pod(4090)


def test_two_labs_that_start_at_once_get_two_networks():
    """Neither listens yet when the other looks, so looking alone is not enough."""
    first, held = reserve_network(5)
    second, also_held = reserve_network(5)
    held.close()
    again, still_held = reserve_network(5)
    also_held.close()
    still_held.close()
    assert first != second
    assert again == first
