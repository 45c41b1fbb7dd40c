"""The move of a federation's server to other addresses: what its operator does, and an owner whose
node has not heard of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entrenous.core.errors import InputError
from entrenous.core.files import write_text
from entrenous.core.lock import changing

from ..agreement.address import split_address
from ..agreement.certificates import names_of
from ..agreement.files import IDENTITY, read_identity, read_json, write_json
from ..agreement.notice import ADDRESSES, MOST, AddressNotice, known_number, take_notice
from ..agreement.terms import TERMS, FederationTerms
from .founding import PLACE, operator_folder
from .membership import renew_certificate, to_do
from .shop import devices_of

OPTION = "--address"


def move(folder: Path, addresses: Sequence[str], port: int = 0) -> list[str]:
    """Signs a notice by which nodes look for the server at these addresses, in this order. A server
    at work tells each node of it, from its next round on.

    addresses: HOST:PORT, 1 to 4. port: on which the server listens when it is started again, 0 = as
    before. Makes a certificate that names hosts which the present one lacks, where the federation
    has an authority. Returns lines for people on what was done and what they have to do.

    Raises InputError, before anything is written, for peers, for what is no address or port, for
    none or too many, and where ca.key is missing and a certificate has to be made.
    """
    server = operator_folder(folder)
    terms = FederationTerms.read(server / TERMS)
    if not terms.has_server:
        problem = "peers have no server that could move"
        raise InputError(str(folder), problem, expected="a federation with a server")
    if not 1 <= len(addresses) <= MOST or len(set(addresses)) < len(addresses):
        problem = f"got {len(addresses)} addresses"
        raise InputError(OPTION, problem, expected=f"1 to {MOST}, each once, newest first")
    hosts = [split_address(OPTION, address)[0] for address in addresses]
    if not 0 <= port < 65536:
        raise InputError("--port", f"got {port}", expected="1 to 65535")
    certificate = _certified(folder, server, hosts)
    with changing(server):
        number = known_number(server) + 1
        notice = AddressNotice.sign(read_identity(server / IDENTITY), terms.run, number, addresses)
        write_text(server / ADDRESSES, notice.text)
        if port:
            write_json(server / PLACE, {**read_json(server / PLACE), "port": port})
    lines = [
        f"notice {number}: {', '.join(addresses)}; {to_do(folder)}, and tells each node that it"
        " asks from then on",
        "nodes try these addresses in this order, then the one that they joined with; serve the old"
        " address too, or forward its port, until they have heard",
        f"for a node that did not hear: send its owner {server / ADDRESSES}, who runs: entrenous"
        " federation join NODE --moved addresses.json",
        *certificate,
    ]
    if port:
        lines.append(f"port {port}: the server listens there once it is started again")
    return lines


def _certified(folder: Path, server: Path, hosts: Sequence[str]) -> list[str]:
    """Has the server's certificate name some hosts, where the federation has an authority that
    signs it. Returns lines for people. Raises InputError where ca.key is missing.
    """
    keys = server / "keys"
    if not read_json(server / PLACE)["tls"]:
        return []
    missing = list(dict.fromkeys(hosts))
    if (keys / "server.crt").exists():
        named = names_of(keys / "server.crt")
        missing = [host for host in missing if host not in named]
    if not missing:
        return []
    # A certificate of a public authority, or of the proxy that ends TLS, is made elsewhere.
    if not (keys / "ca.crt").exists() or not (keys / "server.crt").exists():
        return [f"the server's certificate must name {', '.join(missing)}: get one that does"]
    renew_certificate(folder, missing)
    return [
        f"a new certificate names {', '.join(missing)}, by the same authority: start the server"
        " again to use it"
    ]


def hear(folder: Path, file: Path) -> AddressNotice:
    """Takes a notice of a server's addresses that an owner was sent, for a node, or all devices of
    a shop. A node at work looks there when it connects next.

    Raises InputError for a file that has no notice, and as `take_notice` does.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as cause:
        problem = f"cannot be read ({cause})"
        raise InputError(str(file), problem, expected="the operator's addresses.json") from None
    for node in devices_of(folder) or [folder]:
        terms = FederationTerms.read(node / TERMS)
        notice = take_notice(node, text, str(file), terms)
    return notice
