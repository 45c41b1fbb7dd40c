"""Certificates for a server that has none from elsewhere: an authority of the operator's own, and
the server's certificate by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.x509.verification import PolicyBuilder, Store

from entrenous.core.errors import InputError
from entrenous.core.files import make_folder, write_private

from .address import is_loopback

DAYS = 365  # of a certificate, unless asked otherwise; `expiry` tells when it ends
CA_DAYS = 3650  # of an authority, at least: at its end every node needs the next ca.crt
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# A certificate is valid so long before it was made, for nodes whose clocks are behind.
BACKDATED = timedelta(days=1)


def make_keys(folder: Path, *, names: Sequence[str] = (), days: int = DAYS) -> datetime:
    """Writes what is missing below `folder` and overwrites nothing; returns when the server's
    certificate ends (UTC).

    The files are ca.crt, ca.key, server.crt and server.key. The certificate is for `names`, host
    names or addresses, and for those of loopback where one of `names` is one of them, or where
    there are none: a server that is reached from elsewhere must not be taken for one of this
    machine. Files are 0600, the folder 0700. A node needs ca.crt; ca.key signs servers and is best
    kept off the server once it has signed.

    Raises InputError where half of a pair is there, or a server's certificate that lacks one of
    `names`.
    """
    make_folder(folder, mode=0o700)
    # An authority that is there signs the new server: nodes that have its ca.crt need no other.
    if not _pair(folder / "server.crt", folder / "server.key"):
        if not _pair(folder / "ca.crt", folder / "ca.key"):
            _make_ca(folder, max(days, CA_DAYS))
        _make_server(folder, names, days)
    # Nodes would refuse a server that they reach by a name which its certificate does not have.
    certificate = folder / "server.crt"
    missing = sorted(set(names).difference(names_of(certificate)))
    if missing:
        raise InputError(
            str(certificate),
            f"is not for {', '.join(missing)}",
            fix="move server.crt and server.key away to make new ones",
        )
    return expiry(folder)


def expiry(folder: Path) -> datetime:
    """Returns the end (UTC) of the server's certificate, or of its authority's if sooner and if the
    authority is the federation's own.
    """
    ends = _certificate(folder / "server.crt").not_valid_after_utc
    if not (folder / "ca.crt").exists():
        return ends
    return min(ends, _certificate(folder / "ca.crt").not_valid_after_utc)


def names_of(certificate: Path) -> list[str]:
    """Returns the host names and addresses that a certificate is for. Raises InputError."""
    extensions = _certificate(certificate).extensions
    alternatives = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return sorted({str(each.value) for each in alternatives})


def is_by(authority: bytes, certificate: bytes, host: str) -> bool:
    """Tells whether a server's certificate (DER) is for `host` and by an authority (PEM) itself.
    False where that is not sure: this check knows no authority between the two, and asks more of a
    certificate than OpenSSL does.
    """
    try:
        store = Store(x509.load_pem_x509_certificates(authority))
        verifier = PolicyBuilder().store(store).build_server_verifier(_general(host))
        verifier.verify(x509.load_der_x509_certificate(certificate), [])
    except Exception:
        # A stranger sent it, and may have made it up.
        return False
    return True


def _make_ca(folder: Path, days: int) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Entrenous federation CA")])
    # An authority that signs no further authorities.
    authority = x509.BasicConstraints(True, 0)
    # Signs certificates and revocation lists alone.
    uses = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = _builder(name, name, key, days)
    builder = builder.add_extension(authority, critical=True)
    builder = builder.add_extension(uses, critical=True)
    _store(folder / "ca", key, builder, key)


def _make_server(folder: Path, names: Sequence[str], days: int) -> None:
    ca = _certificate(folder / "ca.crt")
    ca_key = form.load_pem_private_key(_read(folder / "ca.key"), None)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Entrenous server")])
    alternatives = x509.SubjectAlternativeName([_general(each) for each in _wanted(names)])
    no_authority = x509.BasicConstraints(False, None)
    # Good for a server alone, so that nobody can show it as a client's.
    server = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())  # type: ignore[arg-type]
    builder = _builder(name, ca.subject, key, days)
    builder = builder.add_extension(alternatives, critical=False)
    builder = builder.add_extension(no_authority, critical=True)
    builder = builder.add_extension(server, critical=False)
    builder = builder.add_extension(authority, critical=False)
    _store(folder / "server", key, builder, ca_key)


def _wanted(names: Sequence[str]) -> list[str]:
    """Returns the names of a certificate, each once."""
    wanted = list(names)
    if not names or any(is_loopback(name) for name in names):
        wanted += LOOPBACK
    # As the keys of a dict, which keep their order.
    return list(dict.fromkeys(wanted))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    """Returns a certificate for the public half of a key, without what it may be used for."""
    now = datetime.now(UTC)
    public = key.public_key()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    builder = builder.public_key(public).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - BACKDATED)
    builder = builder.not_valid_after(now + timedelta(days=days))
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    return builder.add_extension(identifier, critical=False)


def _store(
    stem: Path, key: EllipticCurvePrivateKey, builder: x509.CertificateBuilder, signer: object
) -> None:
    """Signs a certificate, and writes it and its private key as `stem`.crt and `stem`.key."""
    certificate = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    pem = form.Encoding.PEM
    pkcs8 = form.PrivateFormat.PKCS8
    private = key.private_bytes(pem, pkcs8, form.NoEncryption())
    write_private(stem.with_suffix(".key"), private)
    write_private(stem.with_suffix(".crt"), certificate.public_bytes(pem))


def _general(name: str) -> x509.DNSName | x509.IPAddress:
    """Returns a name as certificates have it: clients look for an address and for a host's name in
    two different places.
    """
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise InputError(
            str(path),
            "is no certificate",
            expected="a PEM file that begins with -----BEGIN CERTIFICATE-----",
        ) from error


def _pair(one: Path, other: Path) -> bool:
    """Returns True if both files are there, and False if neither is. Raises InputError for half of
    a pair.
    """
    found = [path for path in (one, other) if path.exists()]
    # Writing the other half anew would break what uses the first.
    if len(found) == 1:
        there = found[0]
        gone = other if there is one else one
        raise InputError(
            str(gone),
            f"is missing, though {there.name} is there",
            fix=f"bring it back, or move {there.name} away to make both anew",
        )
    return len(found) == 2


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error
