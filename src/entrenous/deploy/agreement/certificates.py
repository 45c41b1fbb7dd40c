"""Certificates for a server that has none from elsewhere: an authority of the operator's own, and
the server's certificate by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import InputError
from ...core.files import make_folder, write_private
from .address import is_loopback

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

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
    if not _pair(folder / "server.crt", folder / "server.key"):
        if not _pair(folder / "ca.crt", folder / "ca.key"):
            _make_ca(folder, max(days, CA_DAYS))
        _make_server(folder, names, days)
    missing = sorted(set(names) - _names(_certificate(folder / "server.crt")))
    if missing:
        raise InputError(
            str(folder / "server.crt"),
            f"is not for {', '.join(missing)}",
            fix="move server.crt and server.key away to make new ones",
        )
    return expiry(folder)


def expiry(folder: Path) -> datetime:
    """Returns the end (UTC) of the server's certificate, or of its authority's if sooner."""
    return min(_certificate(folder / name).not_valid_after_utc for name in ("server.crt", "ca.crt"))


def names_of(certificate: Path) -> list[str]:
    """Returns the host names and addresses that a certificate is for. Raises InputError."""
    return sorted(_names(_certificate(certificate)))


def _make_ca(folder: Path, days: int) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Entrenous federation CA")])
    # Signs certificates and revocation lists alone.
    uses = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = _builder(name, name, key, days)
    builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True)
    _store(folder / "ca", key, builder.add_extension(uses, critical=True), key)


def _make_server(folder: Path, names: Sequence[str], days: int) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    ca = _certificate(folder / "ca.crt")
    ca_key = form.load_pem_private_key(_read(folder / "ca.key"), None)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Entrenous server")])
    alternatives = x509.SubjectAlternativeName([_general(each) for each in _wanted(names)])
    server = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
    builder = _builder(name, ca.subject, key, days)
    builder = builder.add_extension(alternatives, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
    builder = builder.add_extension(server, critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())  # type: ignore[arg-type]
    _store(folder / "server", key, builder.add_extension(authority, critical=False), ca_key)


def _wanted(names: Sequence[str]) -> list[str]:
    """Returns the names of a certificate, each once."""
    local = not names or any(is_loopback(name) for name in names)
    return list(dict.fromkeys((*names, *(LOOPBACK if local else ()))))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
    )
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - BACKDATED)
    builder = builder.not_valid_after(now + timedelta(days=days))
    return builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )


def _store(
    stem: Path, key: EllipticCurvePrivateKey, builder: x509.CertificateBuilder, signer: object
) -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as form

    certificate = builder.sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    pem, pkcs8 = form.Encoding.PEM, form.PrivateFormat.PKCS8
    write_private(stem.with_suffix(".key"), key.private_bytes(pem, pkcs8, form.NoEncryption()))
    write_private(stem.with_suffix(".crt"), certificate.public_bytes(pem))


def _general(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names(certificate: x509.Certificate) -> set[str]:
    from cryptography import x509

    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(each.value) for each in alternatives}


def _certificate(path: Path) -> x509.Certificate:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise InputError(
            str(path),
            "is no certificate",
            expected="a PEM file that begins with -----BEGIN CERTIFICATE-----",
        ) from error


def _pair(one: Path, other: Path) -> bool:
    """Returns whether both files are there. Raises InputError for half of a pair: writing the other
    half would break what uses the first.
    """
    if one.exists() != other.exists():
        there, gone = (one, other) if one.exists() else (other, one)
        raise InputError(
            str(gone),
            f"is missing beside {there.name}",
            fix=f"bring it back, or move {there.name} away to make both anew",
        )
    return one.exists()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error
