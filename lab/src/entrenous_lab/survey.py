"""`python -m entrenous_lab.survey [ALGORITHM ...]` (`make evidence`): the audits whose figures
`explain`, `run` and receipts repeat.

Each is one of `entrenous audit` on MovieLens-100K; what it finds replaces its entry in
privacy/evidence.json, one after the other, so that a survey that is interrupted has lost nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from entrenous_audit.apart import attempts
from entrenous_audit.examine import audited
from entrenous_audit.measures import measured
from entrenous_audit.observe import observe
from entrenous_audit.plan import AuditPlan, View
from entrenous_audit.transcript import Transcript

from entrenous import __version__
from entrenous.core.errors import EntrenousError
from entrenous.core.files import write_atomically
from entrenous.core.types import Array
from entrenous.data.split.types import Split
from entrenous.federation.recorder import Seen
from entrenous.privacy import evidence
from entrenous.privacy.protection import PAPER, PRIVATE
from entrenous.privacy.told import NOT_TRIED, said, verdict_of
from entrenous.runs import pipeline
from entrenous.runs.options import Profile, RunPlan
from entrenous.runs.plan import usual_protocol

DATA, BY_SERVER = (
    "ml-100k",
    {"noise_by": "server"},
)  # the same noise as by shares of the devices, in a simulation much sooner
PAGE = (
    Path(__file__).resolve().parents[3] / "docs" / "results" / "measured.md"
)  # of a clone; an installed package has none
KEPT = (
    "algorithm",
    "view",
    "profile",
    "cohort",
    "people",
    "rounds",
    "data",
    "protocol",
    "seed",
    "popularity",
    "accuracy",
    "epsilon",
    "settings",
    "protect",
)
EXACT = (
    "settings",
    "protect",
)  # numbers that are not rounded: a receipt holds a training against them
OF_ATTACK = (
    "name",
    "precision",
    "recall",
    "r_precision",
    "popularity_r_precision",
    "auc",
    "auc_most",
    "bits_most",
    "advantage",
    "low",
    "high",
    "worst",
    "rounds_to_half",
    "by_round",
    "named",
    "note",
    "verdict",
    "participation",
)
SAME = (
    "algorithm",
    "view",
    "profile",
    "cohort",
    "people",
    "rounds",
)  # entries that a new one replaces


class Look(NamedTuple):
    """One audit of a survey. whole: trained to the end too, for the accuracy and the final model.
    rounds, cohort: 0 = as of an audit.
    """

    algorithm: str
    view: View
    profile: Profile = "paper"
    rounds: int = 0
    cohort: int = 0
    watched: int = 0
    whole: bool = False


PAIRWISE, RATINGS = (
    ("pfpl+", "pfpl", "fedcold"),
    ("fbalf", "fbalf-bayes", "fedrec", "fedmf-ratings"),
)
SINGLE = (
    "fcf",
    "fedavg-gmf",
    "fedavg-neumf",
    "fedmf",
    "fedncf",
    "fedfast-neumf",
    "cali3f-neumf",
    "ditto-neumf",
    "reptile-gmf",
    "rfrec",
)
# Their messages have rows of drawn negatives and nothing that tells these from consumed items. They
# differ from round to round, so that one round says too little of them.
SEVERAL = ("pfedrec", "fedrap", "gpfedrec", "fedrecon", "colr")
PEERS = ("pepper-gmf", "gossip-average-gmf", "gossip-reptile-gmf")
UNDER_PRIVATE = (
    "pfpl+",
    "fcf",
    "fcf-newton",
    "fbalf",
    "fbalf-bayes",
    "fedavg-neumf",
    "fedavg-gmf",
    "fedmf",
    "fedncf",
)
LOOKS: tuple[Look, ...] = (
    *(Look(name, "individual", rounds=10, watched=200, whole=name == "pfpl+") for name in PAIRWISE),
    *(Look(name, "individual", rounds=1, watched=200, whole=name == "fcf") for name in SINGLE),
    *(Look(name, "individual", rounds=10, watched=200) for name in SEVERAL),
    *(Look(name, "individual", rounds=2, watched=200) for name in RATINGS),
    Look("metamf", "individual", rounds=20, watched=200),
    *(Look(name, "neighbour", rounds=1, watched=20) for name in PEERS),
    Look("pfpl+", "sum", rounds=20),
    Look("fcf", "sum", rounds=20),
    Look("fcf", "difference", rounds=10),
    Look("fbalf-bayes", "sum", rounds=20),
    Look("fedavg-neumf", "sum", rounds=20),
    *(Look(name, "sum", PRIVATE, whole=True) for name in UNDER_PRIVATE),
    Look("fcf", "planted", PRIVATE, watched=160),
    Look("fcf-newton", "planted", PRIVATE, watched=160),
    Look("pfpl+", "planted", PRIVATE, watched=160),
    Look("fedncf", "planted", PRIVATE, watched=16),
    *(Look(name, "list", PRIVATE) for name in ("fcf", "fcf-newton", "pfpl+", "fedncf")),
)


def survey(looks: Sequence[Look], data: str = DATA) -> Iterator[dict[str, Any]]:
    """The entries of some audits, as they are done: of what was seen on the way and, of one that
    trains to the end, of its final model.
    """
    for look in looks:
        plan = AuditPlan(
            algorithm=look.algorithm,
            data=data,
            view=look.view,
            profile=look.profile,
            rounds=look.rounds,
            cohort=look.cohort,
            watched=look.watched,
            quick=not look.whole,
            protect={} if look.profile == PAPER else BY_SERVER,
        )
        found = audited(plan)
        entry = _entry(found, look.view)
        if look.profile == "paper" and look.view in ("individual", "neighbour"):
            entry["arrays"] = _without_each(look, data)
        yield entry
        if any(one["view"] == "model" for one in found["attacks"]):
            yield _entry({**found, "view": "model", "rounds": 0}, "model")


def _entry(found: Mapping[str, Any], view: str) -> dict[str, Any]:
    attacks = [
        {name: one.get(name) for name in OF_ATTACK}
        for one in found["attacks"]
        if one["view"] == view and one["asks"] == "histories"
    ]
    for one in attacks:
        if not one["recall"]:
            one["by_round"] = []
        if one["verdict"] != NOT_TRIED:
            del one["note"]  # of the others figures say enough
        if one["participation"]["because"] is None:
            del one["participation"]
        if one["auc_most"] is None:
            del one["auc_most"], one["bits_most"]  # bounded for planted models alone
    about = {name: found[name] for name in KEPT}
    return {**about, "users": found["seen"]["users"], "version": __version__, "attacks": attacks}


# ---- what one array tells ------------------------------------------------------------------------


def _without_each(look: Look, data: str) -> dict[str, Any]:
    """{array: the attack that ranks histories best without that array, None if none applies}."""
    split = _split(look.algorithm, data)
    plan = AuditPlan(
        algorithm=look.algorithm, view=look.view, rounds=look.rounds, watched=look.watched
    )
    seen = observe(plan, split.final_train)
    return {sent["name"]: _best(without(seen, sent["name"]), split) for sent in seen.about["sends"]}


def _split(algorithm: str, data: str) -> Split:
    plan = RunPlan(algorithm=algorithm, data=data, protocol=usual_protocol(data, algorithm))
    return pipeline.material(plan).parts[0]


def _best(seen: Transcript, split: Split) -> dict[str, Any] | None:
    ran = (
        [(one.name, one.claims) for one in attempts(seen) if one.claims is not None]
        if seen.about["sends"]
        else []
    )
    found = [
        {"name": name, **measured(claims, seen, split.final_train)}
        for name, claims in ran
        if claims.asks == "histories"
    ]
    left = ("auc_most", "bits_most", "by_round", "note", "participation")
    kept = [name for name in OF_ATTACK if name not in left]
    attacks = [
        {name: one.get(name) for name in kept} for one in found if one["r_precision"] is not None
    ]
    return max(attacks, key=lambda one: float(one["r_precision"] or 0), default=None)


def without(seen: Transcript, name: str) -> Transcript:
    """A transcript without one of the arrays that leave devices. Item numbers go with the last
    array that has rows.
    """
    sends = [sent for sent in seen.about["sends"] if sent["name"] != name]
    numbered = any(sent["way"] == "rows" for sent in sends)
    rounds = tuple(one._replace(sent=_left(one, name, numbered)) for one in seen.rounds)
    return seen._replace(about={**seen.about, "sends": sends}, rounds=rounds)


def _left(seen: Seen, name: str, numbered: bool) -> dict[str, Array]:
    left = {one: array for one, array in seen.sent.items() if one not in (name, f"{name}_")}
    if numbered or "item" not in left:
        return left
    return {**left, "ptr": np.zeros(len(seen.users) + 1, np.int64), "item": np.empty(0, np.int32)}


# ---- the file ------------------------------------------------------------------------------------


def keep(entry: Mapping[str, Any], path: Path) -> None:
    """Puts an entry in the file, in place of the one that it repeats.

    Under `private` it takes the place of every one of the same view: cohorts and rounds are those
    that the profile brings, and other ones are of a profile that is no more.
    """
    others = []
    for one in _read(path):
        outdated = one["profile"] == PRIVATE and _view_of(one) == _view_of(entry)
        if not outdated and _order(one) != _order(entry):
            others.append(one)
    _write([*others, entry], path)


def _view_of(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    """The algorithm, profile and view of an entry."""
    return entry["algorithm"], entry["profile"], entry["view"]


def keep_only(made: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Takes out of the file what a whole survey no longer makes."""
    asked = [_order(one) for one in made]
    _write([one for one in _read(path) if _order(one) in asked], path)


def _read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["entries"]


def _write(entries: Sequence[Mapping[str, Any]], path: Path) -> None:
    lines = ",\n".join(json.dumps(_rounded(one)) for one in sorted(entries, key=_order))
    write_atomically(path, f'{{"entries": [\n{lines}\n]}}\n'.encode())


def _order(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in SAME)


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: one if name in EXACT else _rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


# ---- the page ------------------------------------------------------------------------------------

OPERATORS = """# What was measured of each algorithm

**An operator who plants models** is the strongest reader here. It writes each model, tries it on devices that it makes up, sees the sums of
`private`, and knows the rarest item of each person (`entrenous audit NAME --profile private --view planted --quick`; `--watched` says of how many):

"""  # noqa: E501  # a page of the documentation, as it is written
LISTS = """
With a tenth of each history known it finds 0.291 of FCF, where popular items find 0.260 (`--knows 0.1`).

**A list that somebody shows** tells more than sums and models, to whoever has the model (`entrenous audit NAME --profile private --view list
--quick`):

"""  # noqa: E501  # a page of the documentation, as it is written
HEAD = """
Written by `make evidence` from the audits that it runs on MovieLens-100K (`loo-99`, or what is usual for an algorithm; seed 0); not by
hand. Each line is the attack of `entrenous audit` that ranks histories best. `entrenous explain NAME` says the same, array by array. How it
is measured, and what R-precision and the verdicts mean: [audit.md](../audit.md). What is not here was not measured. *anyway* is the R-precision of
the same attack on people who never took part, *part* what is known because people took part; empty where that was not tried. Sums and final
models under `private` have been read by stronger attacks than these: [privacy.md](../privacy.md#what-is-known-against-private).

**An attacker who knows a tenth of each history beforehand finds a leak under `private`**: `em` on sums of FCF has 0.339, 0.025 (0.023 to 0.027)
more than popularity, which has 0.314; on sums of pFPL+ it has no more (`entrenous audit NAME --profile private --quick --attack em
--knows 0.1`). The server adds the noise in these audits, which is the same distribution as the devices' shares, drawn sooner.

| algorithm | profile | seen | best attack | precision | recall | R-precision | popularity alone | anyway | part | verdict | accuracy |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |
"""  # noqa: E501  # a page of the documentation, as it is written


def page() -> str:
    """docs/results/measured.md, as it follows from evidence.json."""
    order = sorted(
        evidence.entries(),
        key=lambda one: (one["profile"], one["algorithm"], one["view"], one["rounds"]),
    )
    table = "".join(
        f"| {' | '.join(_cells(one))} |\n"
        for one in order
        if one["view"] not in ("planted", "list")
    )
    return OPERATORS + _said("planted", order) + LISTS + _said("list", order) + HEAD + table


def _said(view: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """A line for each entry of a view."""
    seen = [one for one in entries if one["view"] == view]
    return "".join(f"* `{one['algorithm']}`: {said(one)}\n" for one in seen)


def _cells(entry: Mapping[str, Any]) -> list[str]:
    """A line of the page."""
    attack = evidence.best(entry) or {}
    accuracy = ", ".join(f"{name} {value:.4f}" for name, value in entry["accuracy"].items())
    named = [
        attack.get(one) for one in ("precision", "recall", "r_precision", "popularity_r_precision")
    ]
    part = attack.get("participation", {})
    named += [part.get("guessable"), part.get("because")]
    figures = ["" if value is None else f"{value:.3f}" for value in named]
    verdict = verdict_of(entry)
    return [
        f"`{entry['algorithm']}`",
        entry["profile"],
        evidence.seen(entry),
        attack.get("name", ""),
        *figures,
        verdict,
        accuracy,
    ]


def main(names: Sequence[str]) -> None:
    """Makes the entries of all algorithms, or of those that are named (NAME, NAME:PROFILE or
    NAME:PROFILE:VIEW).
    """
    path = Path(evidence.__file__).with_name(evidence.FILE)
    looks = [
        one
        for one in LOOKS
        if not names
        or {*accumulate((one.algorithm, one.profile, one.view), "{}:{}".format)} & {*names}
    ]
    if not looks:
        print(
            f"no audit is named {', '.join(names)}; expected NAME, NAME:PROFILE or"
            " NAME:PROFILE:VIEW",
            file=sys.stderr,
        )
        sys.exit(2)
    made, failures = [], 0
    for look in looks:
        try:
            for entry in survey([look]):
                keep(entry, path)
                made.append(entry)
                print(f"{entry['algorithm']}, {entry['profile']}: {said(entry)}", flush=True)
        except EntrenousError as failed:  # the others go on
            failures += 1
            print(
                f"{look.algorithm}, {look.profile}, {look.view}: not measured: {failed}",
                file=sys.stderr,
                flush=True,
            )
    if not names and not failures:
        keep_only(made, path)
    evidence.entries.cache_clear()
    if PAGE.parent.is_dir():
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
