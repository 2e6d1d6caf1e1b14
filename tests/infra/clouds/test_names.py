"""Names and labels that clouds take."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from infra.clouds.names import fitted, labels, plain

DNS = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=80).map(
    lambda text: f"a{text}z"
)


@given(DNS, st.integers(12, 63))
def test_a_fitted_name_is_a_dns_label_of_the_length(name: str, limit: int) -> None:
    """Clouds refuse a name that ends in a dash, or is one too long."""
    short = fitted(name, limit)
    assert len(short) <= limit
    assert short[0].isalpha()
    assert short[-1] != "-"


@given(DNS)
def test_a_name_that_fits_stays(name: str) -> None:
    """People look for it in consoles."""
    assert fitted(name, 100) == name


def test_long_names_that_begin_alike_stay_apart() -> None:
    """Two regions must not share a service account."""
    names = [f"{'launch-' * 6}{region}" for region in ("east", "west")]
    assert len({fitted(name, 30) for name in names}) == 2


@given(DNS)
def test_a_plain_name_is_one_that_aks_takes(name: str) -> None:
    """Twelve lower-case letters and digits, a letter first."""
    short = plain(name, 12)
    assert len(short) <= 12
    assert short.isascii()
    assert short.isalnum()
    assert short[0].isalpha()


def test_plain_names_that_differ_in_dashes_stay_apart() -> None:
    """use1-r01 and use-1r01 are two racks."""
    assert plain("use1-r01", 12) != plain("use-1r01", 12)


def test_labels_have_no_colons() -> None:
    """Google's and Nebius's keys are letters, digits, dashes and underscores."""
    assert labels({"k3fleet:fleet": "launch"}) == {"k3fleet-fleet": "launch"}
