"""The certificates of one run: an authority of its own, which signs one certificate for the
launcher and one for each host's agent. Both sides refuse any other (mutual TLS). Keys stay in
memory and travel through SSH's standard input, or the socket of the supervisor, which keeps that
of the forwarders' authority for hosts that join; only `network_access` writes one into a file."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from psclust.agent.access import server_name
from psclust.forward.tls import Identity

# A run may be longer than any date that is chosen, and a host's clock wrong. What ends the
# certificates is that the authority's key is gone with the process that has made it: nobody gets
# another one, and all who take these are processes of the run.
_ALWAYS = (
    datetime.datetime(1970, 1, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59),
)  # RFC 5280, 4.1.2.5


class Authority:
    """A certificate authority for one run (ECDSA, P-256)."""

    def __init__(self, cluster: str) -> None:
        self._key: ec.EllipticCurvePrivateKey = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"psclust {cluster}"[:64])])
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())

    def to_pem(self) -> str:
        """Its key and its certificate: whoever has this can be any host of the run."""
        key = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return (key + self.certificate).decode()

    @classmethod
    def from_pem(cls, text: str) -> Authority:
        """Of `to_pem`. Raises ValueError."""
        found = cls.__new__(cls)
        key = load_pem_private_key(text.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("not a key of an authority")  # noqa: TRY004 - of text
        found._key = key
        found._certificate = x509.load_pem_x509_certificate(text.encode())
        found._name = found._certificate.subject
        return found

    @property
    def certificate(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def launcher(self) -> Identity:
        """For the client side."""
        return self._issue("launcher", ExtendedKeyUsageOID.CLIENT_AUTH)

    def agent(self, host: str) -> Identity:
        """For the server on `host`; clients check the name `server_name(host)`, not its address."""
        return self._issue(server_name(host), ExtendedKeyUsageOID.SERVER_AUTH)

    def forwarder(self, host: str) -> Identity:
        """For both sides. Of an authority of its own: what carries a run's traffic may not command
        its agents."""
        return self._issue(
            server_name(host), ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
        )

    def _issue(self, name: str, *usage: x509.ObjectIdentifier) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        builder = _builder(subject, self._name, key.public_key())
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        return Identity(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            certificate.decode(),
            self.certificate.decode(),
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    begin, end = _ALWAYS
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )
