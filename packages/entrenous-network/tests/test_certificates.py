"""What a server's certificate is good for, and from when."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from entrenous_network.agreement.certificates import LOOPBACK, is_by, make_keys, names_of

from entrenous.core.errors import InputError


@pytest.mark.parametrize(
    ("names", "good_for"),
    [
        ((), LOOPBACK),
        (("127.0.0.1",), LOOPBACK),
        (("localhost", "shop.example"), (*LOOPBACK, "shop.example")),
        (("shop.example",), ("shop.example",)),
        (("10.0.0.7", "shop.example"), ("10.0.0.7", "shop.example")),
    ],
)
def test_a_certificate_is_good_for_this_machine_only_where_that_is_asked_for(
    tmp_path: Path, names: tuple[str, ...], good_for: tuple[str, ...]
) -> None:
    make_keys(tmp_path, names=names)
    assert names_of(tmp_path / "server.crt") == sorted(good_for)
    make_keys(tmp_path, names=names)  # all is there already


def test_a_certificate_is_known_by_its_authority_and_name_alone(tmp_path: Path) -> None:
    for folder in ("own", "other"):
        make_keys(tmp_path / folder)
    own, other = ((tmp_path / path).read_bytes() for path in ("own/ca.crt", "other/ca.crt"))
    der = ssl.PEM_cert_to_DER_cert((tmp_path / "own/server.crt").read_text())
    assert is_by(own, der, "127.0.0.1")
    assert not any(is_by(pem, der, "127.0.0.1") for pem in (other, b"", b"no PEM"))
    assert not any(is_by(own, der, host) for host in ("10.0.0.7", "a.example", "", "\udcff"))
    assert not any(is_by(own, made_up, "127.0.0.1") for made_up in (b"", der[:-1], own))


def test_a_name_that_a_certificate_lacks_is_an_error(tmp_path: Path) -> None:
    make_keys(tmp_path, names=("shop.example",))
    with pytest.raises(
        InputError, match=r"is not for 127\.0\.0\.1; move server.crt and server.key away"
    ):
        make_keys(tmp_path, names=("127.0.0.1",))


@pytest.mark.parametrize("name", ["ca.crt", "server.crt"])
def test_a_certificate_is_valid_for_clocks_that_are_hours_behind(tmp_path: Path, name: str) -> None:
    make_keys(tmp_path)
    found = x509.load_pem_x509_certificate((tmp_path / name).read_bytes())
    assert found.not_valid_before_utc < datetime.now(UTC) - timedelta(hours=23)
