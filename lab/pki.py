"""Make the throw-away certificates of a lab's control plane.

One authority for everything, valid for a week: a lab is not meant to live longer.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = dt.timedelta(days=7)
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def make_pki(folder: Path, *, server_address: str, now: dt.datetime) -> None:
    """Write ca, apiserver, admin and service-account keys into a folder (mode 0700)."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = _Authority.create(folder, now)
    authority.issue(
        "apiserver",
        _name("kube-apiserver"),
        ExtendedKeyUsageOID.SERVER_AUTH,
        (
            x509.DNSName("localhost"),
            x509.DNSName("kubernetes.default.svc"),
            x509.IPAddress(ipaddress.ip_address(server_address)),
        ),
    )
    authority.issue("admin", _name("lab-admin", "system:masters"), ExtendedKeyUsageOID.CLIENT_AUTH)
    account_key = rsa.generate_private_key(65537, 2048)
    _write_key(folder / "sa.key", account_key)
    (folder / "sa.pub").write_bytes(
        account_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


@dataclass(frozen=True, slots=True)
class _Authority:
    folder: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name
    now: dt.datetime

    @classmethod
    def create(cls, folder: Path, now: dt.datetime) -> _Authority:
        authority = cls(folder, ec.generate_private_key(ec.SECP256R1()), _name("lab-ca"), now)
        public = authority.key.public_key()
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            authority.builder(authority.name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(usage, critical=True)
        )
        authority.write("ca", builder)
        return authority

    def builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - dt.timedelta(hours=1))
            .not_valid_after(self.now + VALID_FOR)
        )

    def issue(
        self,
        file_name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: tuple[x509.GeneralName, ...] = (),
    ) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            self.builder(subject, key.public_key())
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if alternatives:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        self.write(file_name, builder)
        _write_key(self.folder / f"{file_name}.key", key)

    def write(self, file_name: str, builder: x509.CertificateBuilder) -> None:
        certificate = builder.sign(self.key, hashes.SHA256())
        (self.folder / f"{file_name}.crt").write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
        )


def _name(common: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _write_key(path: Path, key: PrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
