"""The certificates of one run: an authority of its own, which signs one certificate for the
launcher and one for each host's agent. Both sides refuse any other (mutual TLS). Keys stay in
memory and travel through SSH's standard input; only `network_access` writes one into a file."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from psclust.agent.access import Identity, server_name

LIFETIME = datetime.timedelta(days=365)
# A host whose clock is behind must accept it too.
_BACKDATED = datetime.timedelta(days=1)


class Authority:
    """A certificate authority for one run (ECDSA, P-256)."""

    def __init__(self, cluster: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"psclust {cluster}"[:64])])
        builder = _builder(self._name, self._name, self._key.public_key(), LIFETIME)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def launcher(self, lifetime: datetime.timedelta = LIFETIME) -> Identity:
        """For the client side."""
        return self._issue("launcher", ExtendedKeyUsageOID.CLIENT_AUTH, lifetime)

    def agent(self, host: str, lifetime: datetime.timedelta = LIFETIME) -> Identity:
        """For the server on `host`; clients check the name `server_name(host)`, not its address."""
        return self._issue(server_name(host), ExtendedKeyUsageOID.SERVER_AUTH, lifetime)

    def _issue(
        self, name: str, usage: x509.ObjectIdentifier, lifetime: datetime.timedelta
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        builder = _builder(subject, self._name, key.public_key(), lifetime)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        return Identity(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            certificate,
            self.certificate,
        )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    lifetime: datetime.timedelta,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + lifetime)
    )
