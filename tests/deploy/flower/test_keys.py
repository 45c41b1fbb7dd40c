"""Keys and certificates: what is written, what is never overwritten, what is refused."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from entrenous.core.errors import InputError
from entrenous.deploy.flower.keys import expiry, load_node_keys, make_keys, make_node_key, public_pem


def test_files_are_for_their_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    until = make_keys(tmp_path / "keys", ["a"], names=["10.0.0.7", "server.example"])
    assert timedelta(days=364) < until - datetime.now(UTC) < timedelta(days=366)
    before = {path: path.read_bytes() for path in (tmp_path / "keys").rglob("*.*")}
    assert sorted(path.name for path in before) == ["a.key", "a.pub", "ca.crt", "ca.key", "server.crt", "server.key"]
    assert {path.stat().st_mode & 0o777 for path in before} == {0o600}
    make_keys(tmp_path / "keys", ["a", "b"], names=["10.0.0.7"])
    assert {path: path.read_bytes() for path in before} == before
    assert expiry(tmp_path / "keys") == until


def test_the_server_is_for_its_names(tmp_path: Path) -> None:
    make_keys(tmp_path, names=["10.0.0.7"])
    with pytest.raises(InputError, match=r"server\.crt: is not for server\.example"):
        make_keys(tmp_path, names=["10.0.0.7", "server.example"])


def test_half_of_a_pair_is_refused(tmp_path: Path) -> None:
    make_keys(tmp_path, ["a"])
    (tmp_path / "nodes" / "a.key").unlink()
    with pytest.raises(InputError, match=r"a\.key: is missing beside a\.pub"):
        make_keys(tmp_path, ["a"])


def test_a_ca_kept_elsewhere_is_not_missed(tmp_path: Path) -> None:
    make_keys(tmp_path)
    (tmp_path / "ca.key").unlink()
    make_keys(tmp_path)
    assert not (tmp_path / "ca.key").exists()


def test_the_chain_is_one_that_openssl_trusts(tmp_path: Path) -> None:
    make_keys(tmp_path)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    ins, outs = [ssl.MemoryBIO(), ssl.MemoryBIO()], [ssl.MemoryBIO(), ssl.MemoryBIO()]
    ends = [server.wrap_bio(ins[0], outs[0], server_side=True), client.wrap_bio(ins[1], outs[1], server_hostname="127.0.0.1")]
    done: set[int] = set()
    for _ in range(10):
        for at, end in enumerate(ends):
            try:
                end.do_handshake()
                done.add(at)
            except ssl.SSLWantReadError:
                pass
            ins[1 - at].write(outs[at].read())
    assert done == {0, 1}


def test_wrong_files_are_refused_in_one_line(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    make_keys(tmp_path, ["a"])
    make_node_key(tmp_path / "open.key")
    (tmp_path / "open.key").chmod(0o644)
    small = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "small.key").write_bytes(small.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()))
    (tmp_path / "small.key").chmod(0o600)
    small_public = small.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    (tmp_path / "small.pub").write_bytes(small_public)
    ca, key = tmp_path / "ca.crt", tmp_path / "nodes" / "a.key"
    for line, wrong in {
        "may be read by others": lambda: load_node_keys(ca, tmp_path / "open.key"),
        "is the wrong kind of key": lambda: load_node_keys(ca, tmp_path / "small.key"),
        "is no private key": lambda: load_node_keys(None, ca.rename(tmp_path / "ca2.crt")),
        "cannot be read": lambda: load_node_keys(ca, key),
        "is no certificate": lambda: load_node_keys(key, None),
        "wrong kind of key": lambda: public_pem(tmp_path / "small.pub"),
        "is no public key": lambda: public_pem(key),
    }.items():
        with pytest.raises(InputError, match=line) as refusal:
            wrong()
        assert "\n" not in str(refusal.value)
