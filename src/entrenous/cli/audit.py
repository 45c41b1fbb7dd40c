"""`entrenous audit`: measures by attacks how much of users' histories the messages of their devices
give away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..audit.plan import AuditOptions
from ..core.errors import InputError
from .console import emit_json, progress_bar, table, tell
from .options import Runs, takes

HEADERS = (
    "attack",
    "sees",
    "precision",
    "recall",
    "R-precision",
    "AUC",
    "advantage",
    "worst 5 %",
    "half after",
    "verdict",
)


@takes(AuditOptions)
def audit(
    what: str | None = None,
    /,
    *,
    data: str | None = None,
    list_attacks: Annotated[bool, Parameter(name="--attacks")] = False,
    todays_code: bool = False,
    root: Runs = Path("runs"),
    json: bool = False,
    **options: Any,
) -> None:
    """Measure what an onlooker learns about users' histories: record exactly what it sees, run
    attacks on that alone, and compare their guesses with the truth.

    Verdicts: EXPOSED (histories can be read off), LEAKS (attacks learn more than popularity tells),
    NO ADVANTAGE FOUND BY THESE ATTACKS, NOT TRIED (there was nothing to attack); none says "safe".

    Example: entrenous audit pfpl+ --view sum --cohort 100 --rounds 60

    Parameters
    ----------
    what:
        An algorithm of `entrenous algorithms`, or the name or folder of a stored run.
    data:
        A data set, file or folder; default: ml-100k, or the data of the run.
    list_attacks:
        List the attacks with their sources, and do nothing else.
    todays_code:
        Audit a stored run although the code of its algorithm has changed.
    root:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    if list_attacks:
        _list(json)
        return
    if what is None:
        raise InputError(
            "entrenous audit",
            "nothing was named",
            expected="an algorithm of `entrenous algorithms`, or a stored run",
            fix="try: entrenous audit pfpl+",
        )
    from ..api.auditing import AuditKeywords, audited_what

    with progress_bar() as progress:
        asked = AuditKeywords(
            what, data, root=root, todays_code=todays_code, progress=progress, **options
        )
        report = audited_what(asked)
    if json:
        emit_json(report)
    else:
        _show(report)


def _list(json: bool) -> None:
    from ..audit.known import known

    attacks = [
        {"name": attack.name, "views": list(attack.views), "source": attack.source}
        for attack in known().values()
    ]
    if json:
        emit_json({"attacks": attacks})
        return
    rows = [[attack["name"], ", ".join(attack["views"]), attack["source"]] for attack in attacks]
    table(["attack", "needs the view", "source"], rows)


def _show(found: dict[str, Any]) -> None:
    """Prints an audit as a table, then sentences on what its figures rest on."""
    # The first row is the yardstick: a guess by popularity, which needs no message of anybody.
    guess = found["popularity"]
    popularity = {**dict.fromkeys(HEADERS, ""), "attack": "popularity alone"}
    popularity["R-precision"] = _number(guess["r_precision"])
    popularity["AUC"] = _number(guess["auc"])
    rows = [list(popularity.values())]
    rows += [_row(attack) for attack in found["attacks"]]
    about = (
        f"{found['algorithm']} on {found['data']}, view {found['view']}, profile"
        f" {found['profile']}, {_scope(found)}"
    )
    table(HEADERS, rows, title=about)
    for sentence in _sentences(found):
        tell(f"- {sentence}")


def _row(attack: dict[str, Any]) -> list[str]:
    """Returns the row of one attack, in the order of HEADERS."""
    # An attack that was not tried has a verdict and no figures.
    if attack["r_precision"] is None:
        return [attack["name"], attack["view"], *[""] * 7, attack["verdict"]]
    span = ""
    half = ""
    if attack["low"] is not None:
        span = f"{attack['advantage']:+.3f} ({attack['low']:+.3f} to {attack['high']:+.3f})"
    if attack["rounds_to_half"] is not None:
        half = _rounds(attack["rounds_to_half"])
    numbers = [_number(attack[name]) for name in ("precision", "recall", "r_precision", "auc")]
    name = attack["name"] if attack["named"] else f"{attack['name']} (pseudonyms)"
    return [
        name,
        attack["view"],
        *numbers,
        span,
        _number(attack["worst"]),
        half,
        attack["verdict"],
    ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}"


def _rounds(number: int) -> str:
    return f"{number} round{'s' if number > 1 else ''}"


def _scope(found: dict[str, Any]) -> str:
    """Returns how much the onlooker saw: rounds, users, and the seed."""
    # Who sees the final model alone sees no rounds.
    if found["view"] == "model":
        return f"seed {found['seed']}"
    who = f"{found['cohort']} {'fixed ' if found['fixed'] else ''}users a round"
    if found["view"] == "neighbour":
        who = f"{found['watched']} of {found['cohort']} peers look on together"
    return f"{_rounds(found['rounds'])}, {who}, seed {found['seed']}"


def _sentences(found: dict[str, Any]) -> list[str]:
    """Returns sentences on the rows behind the figures, the protection, and the limits of the
    figures.
    """
    seen = found["seen"]
    protect = found["protect"]
    sentences = [
        f"seen: {seen['users']} users, {seen['entries']} messages or sums, {seen['bytes']:,} bytes;"
        " truth: the rows trained on"
    ]
    if protect["secure_sum"] and found["view"] == "individual":
        sentences.append(
            "single messages are masked under this profile: this is what they would tell if the"
            " masks were broken"
        )
    # With as many equations as unknowns, sums could be solved for each party's part.
    counts = found["equations"]
    if counts is not None:
        enough = "fewer than parties"
        if counts["equations"] >= counts["parties"]:
            enough = "as many as there are parties"
        product = f"{counts['rounds']} rounds x {counts['numbers']} numbers = {counts['equations']}"
        noise = f", under noise of {protect['noise']}" if protect["noise"] else ""
        sentences.append(
            f"equations for each item: {product} for {counts['parties']} parties: {enough}{noise}"
        )
    if any(not attack.get("named", True) for attack in found["attacks"]):
        sentences.append(
            "pseudonyms: whole histories without names; matched with users on half of the items,"
            " measured on the other half"
        )
    for attack in found["attacks"]:
        if attack.get("note"):
            sentences.append(f"{attack['name']}: {attack['note']}")
    accuracy = "accuracy: not measured"
    if found["accuracy"]:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in found["accuracy"].items())
        accuracy = f"accuracy of the same training to its end, {found['protocol']}: {figures}"
    return [
        *sentences,
        accuracy,
        _bound(found),
        *_shown_by_canaries(found["canaries"]),
        "what no attack of the list found may still be there: a verdict is about these attacks"
        " alone",
    ]


def _bound(found: dict[str, Any]) -> str:
    """Returns a sentence on the differential privacy that was spent."""
    if found["epsilon"] is None:
        return "no proven bound: epsilon is infinite"
    budget = f"of a budget of {found['budget']:g} at delta {found['delta']:g}"
    whole = ""
    if found["epsilon_whole"] is not None:
        whole = f"; the training to its end has spent {found['epsilon_whole']:.3f}"
    return f"proven bound: what was seen has spent epsilon {found['epsilon']:.3f} {budget}{whole}"


def _shown_by_canaries(canaries: dict[str, Any] | None) -> list[str]:
    """Returns a sentence on the lower bound of epsilon; an empty list without canaries."""
    if canaries is None:
        return []
    guessed = (
        f"{canaries['right']} of {canaries['guesses']} guesses about {canaries['users']} canaries"
        f" in {canaries['rounds']} rounds were right"
    )
    promise = "no epsilon was promised"
    broken = ""
    if canaries["epsilon"] is not None:
        promise = f"promised for these rounds: {canaries['epsilon']:.3f}"
        if canaries["epsilon_at_least"] > canaries["epsilon"]:
            broken = ": THE PROMISE IS BROKEN"
    return [
        f"epsilon is {canaries['epsilon_at_least']:.3f} at least, at 95 % confidence: {guessed}"
        f" ({promise}; with so many canaries no more than {canaries['most']:.3f} can be"
        f" shown){broken}"
    ]
