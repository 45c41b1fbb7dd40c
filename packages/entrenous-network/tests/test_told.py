"""What an owner is told before joining is what is sent: arrays that travel singly are named, and
nothing hides it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.address import is_host, split_address
from entrenous_network.agreement.files import public_bytes
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.operate.enrolment import told
from federation_links import federation, ratings

from entrenous.core.contract.declared import bound, is_federated
from entrenous.core.errors import EntrenousError, InputError
from entrenous.systems.named import algorithms

MASKS = {"secure_sum": True, "people": 100, "parties": 3, "sampling": "poisson", "answers": 3}
OPERATOR = public_bytes(Ed25519PrivateKey.from_private_bytes(b"\7" * 32)).hex()
FEDERATED = [name for name in algorithms() if is_federated(algorithms()[name]())]


def terms(algorithm: str, **protection: Any) -> FederationTerms:
    settings = {"clusters": 3} if algorithm.startswith(("fedfast", "cali3f")) else {}
    if protection and hasattr(algorithms()[algorithm](), "cohort"):
        settings["cohort"] = 120  # a lot of all would draw too many for a list
    return FederationTerms.parse(
        {
            "algorithm": algorithm,
            "settings": settings,
            "users": 300,
            "items": 60,
            "interactions": 3000,
            "scale": (1, 5),
            "rounds": 3,
            "operator": OPERATOR,
            "protection": protection,
        },
        "terms",
    )


def shown_by(of: FederationTerms) -> list[str]:
    """What the contract of the algorithm says that each device shows, read here without the code
    under test.
    """
    return list(bound(of.make(), of.catalogue).way("shown"))


@pytest.mark.parametrize("algorithm", FEDERATED)
def test_what_is_said_of_sums_names_what_is_in_none(algorithm: str) -> None:
    """For every federated algorithm, with and without masks: the line of limits names exactly what
    the contract shows singly.
    """
    for protection in (MASKS, {}):
        of = terms(algorithm, **protection)
        try:
            shown = shown_by(of)
        except (
            EntrenousError
        ):  # under masks: sums of one device or of groups, or too few of them; so nobody joins it
            assert protection
            continue
        said = of.limits()
        assert ("masked sums of at least 100 people" in said) == bool(protection)
        named = re.search(
            r"of each user singly, in no sum and under no mask or clip: ([a-z0-9_, ]+);", said
        )
        assert (named.group(1).split(", ") if named else []) == shown
        lines = of.reveals()
        assert [line.split("'")[1] for line in lines] == shown and all(
            "\n" not in line for line in lines
        )


def test_masks_are_not_for_an_algorithm_that_shows_devices_singly() -> None:
    """No mask hides such a vector. Without masks an owner hears of it."""
    with pytest.raises(InputError, match="each device of fedfast-gmf shows user singly, which no"):
        terms("fedfast-gmf", **MASKS).make()
    of = terms("fedfast-gmf")
    assert shown_by(of) == ["user"]
    assert "no audit of fedfast-gmf has measured" in of.reveals()[0]
    (measured,) = terms("fedfast-neumf").reveals()
    assert "without this array" in measured and "popularity alone" in measured


def test_an_owner_hears_which_vectors_travel_singly(tmp_path: Path) -> None:
    made = federation(
        tmp_path / "f", 3, 2, "fedfast-gmf", settings={"factors": 4, "clusters": 3, "cohort": 9}
    )
    said = told(made.server.parent / "invitations" / "node-1")
    assert any(
        "of each user singly, in no sum and under no mask or clip: user;" in line for line in said
    )
    assert any(line.startswith("'user' of each user leaves by itself, each round") for line in said)


def test_of_an_algorithm_of_ones_own_nothing_is_promised_unread(tmp_path: Path) -> None:
    of = FederationTerms.parse({**terms("fpl").model_dump(), "algorithm": "own:Mine"}, "terms")
    assert "of each user singly what" in of.limits() and "--algorithm ./FILE.py" in of.reveals()[0]


@pytest.fixture(scope="module")
def invitation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The invitation of a node."""
    made = federation(tmp_path_factory.mktemp("told") / "f", 3, 2, data=ratings())
    return made.server.parent / "invitations" / "node-1"


@pytest.mark.parametrize(
    "server",
    [
        "\x1b[2K\x1b[1Afriendly:8443",
        "a\x9b1Ab:8443",
        "evil\u202etsoh:8443",
        "a b:8443",
        "h/../x:8443",
        "a;b:8443",
        "h\n:8443",
        "[fe80::1%\x1b[2K]:8443",
        "-x:8443",
        "a..b:8443",
        ":8443",
        "h:0",
        "h:65536",
        "h:８443",
        "h:²",
        f"{'a' * 64}.de:1",
        "日本:1",
    ],
)
def test_a_server_that_no_host_can_be_is_refused_by_the_invitations_name(
    invitation: Path, server: str
) -> None:
    path = invitation / "invitation.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "server": server}))
    with pytest.raises(InputError) as why:
        told(invitation)
    assert str(path) in str(why.value) and "is no address" in str(why.value)
    assert str(why.value).isprintable()


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("shop.example:8443", "shop.example", 8443),
        ("10.0.0.7:1", "10.0.0.7", 1),
        ("[::1]:8443", "::1", 8443),
        ("localhost:65535", "localhost", 65535),
        ("my_host-1.lan.:80", "my_host-1.lan.", 80),
        ("[fe80::1%eth0]:9", "fe80::1%eth0", 9),
    ],
)
def test_hosts_that_can_be_are_taken(address: str, host: str, port: int) -> None:
    assert split_address("here", address) == (host, port)
    assert is_host(host)
