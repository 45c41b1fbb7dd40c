"""The differential privacy that several trainings on the same people have spent, each by itself
and all together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from ..privacy.accountant import SampledGaussian, epsilon_of_all
from ..privacy.protection import epsilon_in_words


class RunBudget(TypedDict):
    """The differential privacy of one training; None where it had no budget."""

    algorithm: str
    seed: int
    epsilon: float | None
    delta: float | None


class AllBudgets(TypedDict):
    """The differential privacy of several trainings on the same people."""

    runs: list[RunBudget]
    trainings: int
    epsilon: float | None
    """Of all together; None where one had no budget."""
    delta: float | None


def spent_on_all(manifests: Mapping[str, Sequence[Mapping[str, Any]]]) -> AllBudgets | None:
    """The differential privacy that the trainings of a comparison have spent of each user; None
    where none of them had a budget.

    Seeds hold out other rows, but the people are the same, and the unit is a user with all their
    rows: each training releases sums of the same user, so epsilons compose over all trainings.

    manifests: {label: the manifests of its runs, one a seed}. Returns: runs: of each training
    `algorithm` (its label), `seed`, `epsilon` and `delta`, None where it had no budget. trainings:
    how many there are. epsilon, delta: of all together, by PLD, at the largest of their deltas;
    None where one had no budget, since nothing then bounds what all of them tell.
    """
    runs: list[RunBudget] = []
    budgets = []
    for label, of_label in manifests.items():
        for manifest in of_label:
            budget = manifest.get("privacy") or {}
            budgets.append(budget)
            run: RunBudget = {
                "algorithm": label,
                "seed": manifest["seed"],
                "epsilon": budget.get("epsilon"),
                "delta": budget.get("delta"),
            }
            runs.append(run)
    # Without any budget there is nothing to add up.
    if not any(budgets):
        return None
    epsilon, delta = _together(budgets)
    return {"runs": runs, "trainings": len(runs), "epsilon": epsilon, "delta": delta}


def _together(budgets: Sequence[Mapping[str, Any]]) -> tuple[float | None, float | None]:
    """The epsilon of all trainings, and its delta."""
    if not all(budgets):
        return None, None
    # A larger delta allows a smaller epsilon; the largest is the honest one for all together.
    delta = max(budget["delta"] for budget in budgets)
    releases = []
    for budget in budgets:
        mechanism = SampledGaussian(budget["noise_multiplier"], budget["rate"])
        releases.append((mechanism, budget["releases"]))
    return epsilon_of_all(releases, delta), delta


def in_short(spent: AllBudgets) -> str:
    """The epsilon of one training and of all, in a clause."""
    trainings = spent["trainings"]
    known = [run["epsilon"] for run in spent["runs"] if run["epsilon"] is not None]
    people = f"all {trainings} trainings on the same people"
    each = f"epsilon {max(known):.3f} a training at most"
    # One training without a budget may tell anything, so nothing bounds them together.
    if spent["epsilon"] is None or spent["delta"] is None:
        without = trainings - len(known)
        return f"{each}; nothing bounds {people}, of which {without} had no budget"
    return f"{each}; {epsilon_in_words(spent['epsilon'], spent['delta'], trainings)}"


def in_full(spent: AllBudgets) -> list[str]:
    """A sentence for each training, and one for all."""
    sentences = []
    for run in spent["runs"]:
        budget = "no budget"
        if run["epsilon"] is not None and run["delta"] is not None:
            budget = epsilon_in_words(run["epsilon"], run["delta"])
        sentences.append(f"{run['algorithm']}, seed {run['seed']}: {budget}")
    whole = f"differential privacy: {in_short(spent)}; figures on held-out rows are not covered"
    return [*sentences, whole]
