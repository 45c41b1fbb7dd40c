"""`AuditPlan` and `AttackPlan`: the options of an audit and of an attack on training, said once.
The command line, the Python functions and the code of this folder read these classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final

from entrenous.core.values import SettingValue
from entrenous.runs.options import Profile

View = Literal["individual", "sum", "difference", "neighbour", "model", "planted", "list"]
"""individual: a server that opens every update. sum: a server that gets the sum of a round and
knows who was asked. difference: a server that gets two sums, with and without one party. neighbour:
a peer, which keeps every message that reaches it. model: anybody who has the final model. planted:
a server that designs every model, and sees sums. list: anybody who sees a person's recommendations
and has the final model.
"""

SUM_PARTIES = 100  # usual parties in a sum


@dataclass(frozen=True, kw_only=True)
class JudgedOptions:
    """The options of every training that is judged here: how it is set up, and on which rows."""

    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """Hyper-parameters by name, where they differ from the algorithm's own."""
    protocol: str | None = None
    """How rows are held out, as for `entrenous run`. Attacks are judged by the rows that are
    left."""
    refit: bool | None = None
    """Whether devices train on validation rows too, as for `entrenous run`; --no-refit: on the
    training rows alone."""
    load: Mapping[str, SettingValue] = field(default_factory=dict)
    """How to read a file, such as item=venue. `entrenous data check --help` lists the names."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions(JudgedOptions):
    """The options of an audit, without the algorithm and the data."""

    view: View | None = None
    """The view of the onlooker: individual = every update; sum = the sum of a round; difference =
    two sums, with and without one party; neighbour = all that reaches a peer; model = the final
    model alone; planted = sums of models that the server designs; list = lists of ten and fifty
    recommendations. Default: individual; sum where messages are masked; neighbour where there is no
    server."""
    cohort: int = 0
    """Parties in a round. 0 = everybody; in `sum` as many as the settings of the training say, 100
    without a cohort and 300 under `private`; in `difference` one more, so that the smaller sum has
    as many; of a final model, the algorithm's own number."""
    rounds: int = 0
    """Rounds that are seen; between peers, units of time. 0 = 1; of sums, the whole training or as
    much of it as 512 MB hold; 30 of differences; of a final model, the algorithm's own number; in
    `planted` the answers of a person, as many as a federation allows."""
    people: int = 1
    """Users of each party, whom one gateway answers for. They take part together."""
    watched: int = 0
    """Users whose single messages are kept; between peers, how many of them look on. 0 = as many as
    512 MB hold; in `planted` people who are read, 0 = 40."""
    profile: Profile = "paper"
    """The limits on the data that leaves devices, as for `entrenous run`."""
    protect: Mapping[str, SettingValue] = field(default_factory=dict)
    """Settings of the protection that differ from the profile's. Names: {protect}."""
    knows: float = 0.0
    """The share of every history that the onlooker knows beforehand, drawn at random; known items
    are no find. 0 = nothing; with a final model, half."""
    new_row: bool = False
    """Of two sums, the second is of the same people, one of whom has one row fewer; the onlooker
    knows who, and all other rows."""
    attacks: tuple[str, ...] = ()
    """Attacks by name; default: all that apply."""
    network: Mapping[str, SettingValue] = field(default_factory=dict)
    """The network between peers that gossip, as for `entrenous run`; default: rounds in lock
    step."""
    seed: int = 0
    """Names all randomness."""
    quick: bool = False
    """Leaves out the training to the end, and with it accuracy and the attacks on the final
    model."""
    canaries: int = 0
    """Users who become canaries in one more training, under a profile with a clip: guesses of which
    of them took part give a lower bound of epsilon. 0 = none."""
    threads: int = 0
    """Threads over devices. 0 = all cores."""

    @property
    def parties(self) -> int:
        """Parties in a round, 0 = everybody."""
        # One party is left out of the smaller of two sums.
        usual = {"sum": SUM_PARTIES, "difference": SUM_PARTIES + 1}
        return self.cohort or usual.get(self.view or "individual", 0)

    @property
    def in_a_round(self) -> int:
        """Users in a round, 0 = everybody: those of all its parties."""
        return self.parties * self.people


@final
@dataclass(frozen=True, kw_only=True)
class AuditPlan(AuditOptions):
    """An audit: the training that is audited, and what its onlooker sees."""

    algorithm: str
    """A name of `entrenous algorithms`, or the place of a file (./my_algo.py)."""
    data: str = "ml-100k"
    """A data set, file or folder."""


@dataclass(frozen=True, kw_only=True)
class AttackOptions(JudgedOptions):
    """The options of an attack on training by colluding devices or peers, and of the defences,
    without the algorithm and the data.
    """

    attack: str = "boost"
    """The attack by name. With a server: {poisons}. Between peers: {peerpoisons}."""
    share: float = 0.1
    """The share of all devices that collude, above 0 and below 1. Colluders are added to the users
    of the data."""
    target: tuple[str, ...] = ()
    """The item to promote, by its id; may be repeated. Without one, --targets are drawn."""
    targets: int = 1
    """The number of items to draw among those with 5 to 9 consumers; each is promoted in a separate
    training."""
    defences: tuple[str, ...] = ()
    """Defences by name. With a server: {defences}; default: none and robust. Between peers:
    {peerdefences}; default: all of these."""
    attack_settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """Settings of the attack by name, such as strength=10. An unknown name lists the known ones."""
    rounds: int | None = None
    """Rounds of training; default: the algorithm's own."""
    seed: int = 0
    """Names all randomness of the first training, and draws the targets."""
    seeds: int = 1
    """Trainings for each target, with the seeds --seed and those that follow it."""


@final
@dataclass(frozen=True, kw_only=True)
class AttackPlan(AttackOptions):
    """An attack on the training of one algorithm."""

    algorithm: str
    """An algorithm with a server or between peers: its name or the place of its file."""
    data: str = "ml-100k"
    """A data set, file or folder."""
