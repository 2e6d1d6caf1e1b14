"""Claims about asking an endpoint before a load is sent to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tls import https_server, write_certificate

from fleet.errors import ConfigError
from verify.endpoint import require_model


def test_an_endpoint_of_a_private_authority_is_asked_with_its_certificates(tmp_path: Path) -> None:
    """The load trusts them, and so must the question before it."""
    certificate = write_certificate(tmp_path / "gateway.pem")
    with https_server(certificate, b'{"data": [{"id": "kimi-k3"}]}') as url:
        assert require_model("--target us", url, "kimi-k3", {}, ca_file=certificate) is None
        with pytest.raises(ConfigError, match=r"certificate.*client\.ca_file"):
            require_model("--target us", url, "kimi-k3", {})
