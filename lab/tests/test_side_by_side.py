"""The table of all systems has all systems, and names those that nobody beats."""

from types import SimpleNamespace

from entrenous_lab.papers import side_by_side
from entrenous_lab.papers.field import THEIRS
from entrenous_lab.papers.side_by_side import CENTRAL, FEDERATED, GOSSIP, QUICK, front_note
from entrenous_lab.papers.study import System

from entrenous.core.registry.discover import offers
from entrenous.systems.named import algorithms
from lab.tests.test_cali3f import look

# needs places (PRME-G), a sibling that stands there with another network, or the same under another
# name or with other presets
LEFT_OUT = {"fpl", "rfrecf", "ditto-gmf", "ditto-mlp", "fedavg-mlp", "fedfast-mlp", "reptile-mlp"}
# in the field's table instead, with a sibling of other layers, and what needs features of items
LEFT_OUT |= {name for each in THEIRS for name in (each.algorithm, each.program)}
LEFT_OUT |= {"fedncf-mlp", "fedcold"}


def test_every_federated_and_gossip_system_is_in_the_table():
    trained_apart = algorithms().keys() - offers("entrenous.systems.central", "ALGORITHMS").keys()
    named = {name for name in trained_apart if not name.endswith("prme-g")} - LEFT_OUT
    assert named == {*FEDERATED, *GOSSIP} and set(CENTRAL) <= algorithms().keys()
    assert set(QUICK) <= {*FEDERATED, *GOSSIP, *CENTRAL}


def test_the_front_is_of_those_that_nobody_beats_in_both(monkeypatch):
    monkeypatch.setattr(
        side_by_side,
        "kind_of",
        lambda trained, system: "central" if str(system) == "ials" else "with a server",
    )
    scores = {
        "fcf": (0.4, 50),
        "pfpl+": (0.3, 10),
        "fbalf": (0.3, 20),
        "ials": (0.9, 0),
        "sfpl": (0.2, 5),
    }
    looks = {
        System(name): [look(1, value)._replace(ledger={"bytes_up": mb * 10**6, "bytes_down": 0})]
        for name, (value, mb) in scores.items()
    }
    (said,) = front_note(SimpleNamespace(name="d", looks=looks))
    assert (
        "fcf (0.4000, 50.0 MB); pfpl+ (0.3000, 10.0 MB); sfpl (0.2000, 5.0 MB)." in said
        and "fbalf" not in said
    )
