"""FPL's findings in words, computed from the figures: where we agree with the paper, where not, and what explains it."""

from __future__ import annotations

from dataclasses import replace

from ..data.interactions import Interactions
from ..split.protocol import splits
from .cell import Cell, parts_of
from .findings import POPULAR, SIGNIFICANT
from .fpl_grid import FCF
from .fpl_search import CHOSEN_BY, FPL_SYSTEMS, Search, computed_as, twin
from .study import Study
from .table import Trained, system_of
from .values import printed


def protocol_note(trained: Trained) -> list[str]:
    """How the figures came about, once; which systems have no figure of ours, and why."""
    study, search = trained.study, trained.more
    test, validation = study.part("test"), study.part("validation")
    return [
        f"{study.name}: {len(test.rows)} training and {len(test.held.rows)} test rows; settings are chosen by {CHOSEN_BY} on "
        f"{len(validation.held.rows)} validation rows alone, then each system trains on all training rows and the test rows are "
        f"opened. Tried: {search.grid.sentence()}. One seed ({study.seed}).",
        *(
            f"{study.name}: no {system} here: {search.why_absent(system)}."
            for system, looks in trained.looks.items()
            if not looks
        ),
    ]


def fcf_note(trained: Trained) -> list[str]:
    """FCF as published against what the paper compared with."""
    of = {str(system_of(row)): row["obtained"] for row in trained.rows if row["metric"] == CHOSEN_BY}
    published, compared, plus = (of.get(name) for name in ("fcf", "fcf-huawei", "pfpl+ (run)"))
    if published is None or compared is None or plus is None:
        return []
    claim = "as published it is ahead of pFPL+ as run" if published > plus else "as published, too, it is behind pFPL+ as run"
    return [
        f"{trained.name}, FCF (P@10): as published {published:.5f}; in the form that the paper compared with (what was not consumed "
        f"has weight 0, plain gradient descent) {compared:.5f}; pFPL+ as run {plus:.5f}. Both at BPR-MF's learning rate and "
        f"factors, as section 5.3 has it: {claim}."
    ]


def significance_note(trained: Trained) -> list[str]:
    """Which systems differ from BPR-MF."""
    better, worse, equal = list[str](), list[str](), list[str]()
    for test in trained.tests:
        if test["metric"] == CHOSEN_BY and "bpr-mf" in (test["a"], test["b"]):
            other = test["b"] if test["a"] == "bpr-mf" else test["a"]
            lead = test["difference"] if other == test["a"] else -test["difference"]
            (equal if test["p_holm"] >= SIGNIFICANT else better if lead > 0 else worse).append(other)
    said = (
        f"{what} {', '.join(names) or 'none'}"
        for what, names in zip(("above:", "below:", "no difference:"), (better, worse, equal), strict=True)
    )
    return [
        f"{trained.name}, against BPR-MF (P@10, paired t over users, Holm over all pairs, {SIGNIFICANT:.0%}): {'; '.join(said)}."
    ]


def epochs_note(trained: Trained) -> list[str]:
    """Which factor models were trained for the most epochs that were tried: they might gain from more."""
    search: Search = trained.more
    said = []
    for system, choice in search.chosen.items():
        if choice is not None and not twin(system):
            epochs = choice.settings.get("epochs", choice.epochs) if system.algorithm == "bpr-mf" else choice.epochs
            tried = search.grid.fcf_rounds if system.algorithm in FCF else search.grid.epochs_of(computed_as(system))
            said += [f"{system} {epochs}"] if epochs == max(tried) else []
    return [f"{trained.name}, at the upper end of the epochs that were tried: {', '.join(said) or 'none'}."]


def pi_note(trained: Trained) -> list[str]:
    """The pi that validation chose, and how much it matters."""
    search: Search = trained.more
    said = []
    for system in FPL_SYSTEMS:
        best, sharing = search.chosen[system], {pi: choice for pi, choice in search.sweeps[system].items() if pi > 0}
        if best is not None and sharing and not twin(system):
            low, high = (pick(choice.validation for choice in sharing.values()) for pick in (min, max))
            nothing = search.sweeps[system].get(0.0)
            none = "" if nothing is None else f", {nothing.validation:.4f} at 0"
            said.append(f"{system} {best.settings['pi']:g} ({low:.4f} to {high:.4f} over pi > 0{none})")
    return [f"{trained.name}, pi chosen on validation, and P@10 there: {'; '.join(said)}."] if said else []


# ---- why the level differs from the paper's: a system without settings, when other rows of the same users are held out -------------


def order_note(trained: Trained) -> list[str]:
    """`order_control` against the P@10 of Top-Pop in table 2."""
    return order_control(trained.study, printed("fpl", "table2").get((trained.name, POPULAR, CHOSEN_BY)))


def order_control(study: Study, printed: float | None) -> list[str]:
    """P@10 of Top-Pop with the newest, random and oldest rows held out, against the printed one; Italy only."""
    if study.name != "foursquare-italy" or printed is None:
        return []
    turned = replace(study.data, time=None if study.data.time is None else -study.data.time)
    newest, oldest = (top_pop(study, data, study.source.protocol) for data in (study.data, turned))
    random = top_pop(study, study.data, "random-80-20")
    return [
        f"{study.name}, why the level differs: Top-Pop has no settings, so it shows whether the rows held out are the "
        f"paper's, where it has P@10 {printed:.5f}. Of the same users, in the same numbers: newest rows held out {newest:.5f}, "
        f"random rows {random:.5f}, oldest rows {oldest:.5f}. {_order_cause(newest, random, oldest)}"
    ]


def _order_cause(newest: float, random: float, oldest: float) -> str:
    """What the order of the three figures says about the time stamps."""
    if not newest < random < oldest:
        return "They do not rise with the age of the rows, so their time does not explain the level."
    return (
        "The older the rows held out, the better it is, as it would be if the published files had the time of a user's first visit to "
        "a venue (one row a venue); a later program of the authors keeps the last (fedbpr-light: max of utc). By first visits the "
        "newest rows are venues found late; by last visits they would be venues returned to, which are the popular ones. Every row of "
        "the table inherits it: compare ratios to Top-Pop."
    )


def top_pop(study: Study, data: Interactions, protocol: str) -> float:
    """P@10 of Top-Pop under a protocol."""
    part = parts_of(splits(protocol, data, seed=study.seed)[0])["test"]
    cell = Cell(algorithm=POPULAR, settings={}, part="test", seed=study.seed)
    return study.cells.outcomes_of([(part, cell)])[0].looks[0].metrics[CHOSEN_BY]
