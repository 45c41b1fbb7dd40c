"""`entrenous audit`: what leaves devices gives away, measured."""

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
    """Measure what an onlooker learns of histories: record exactly what it sees, run attacks on
    that alone, compare with the truth.

    Verdicts: EXPOSED (histories are read off), LEAKS (more than popularity tells), NO ADVANTAGE
    FOUND BY THESE ATTACKS, NOT TRIED (there was nothing to attack with); none says "safe".

    Example: entrenous audit pfpl+ --view sum --cohort 100 --rounds 60

    Parameters
    ----------
    what:
        An algorithm of `entrenous algorithms`, or a stored run, by its name or folder.
    data:
        A data set, file or folder; default: ml-100k, or that of the run.
    list_attacks:
        List the attacks with their sources, and do nothing else.
    todays_code:
        Audit a stored run although its algorithm's code has changed.
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

    found = [
        {"name": one.name, "views": list(one.views), "source": one.source}
        for one in known().values()
    ]
    if json:
        emit_json({"attacks": found})
    else:
        table(
            ["attack", "needs the view", "source"],
            [[one["name"], ", ".join(one["views"]), one["source"]] for one in found],
        )


def _show(found: dict[str, Any]) -> None:
    """An audit as a table, and sentences that say what it rests on."""
    guess = found["popularity"]
    rows = [
        [
            "popularity alone",
            "",
            "",
            "",
            _number(guess["r_precision"]),
            _number(guess["auc"]),
            "",
            "",
            "",
            "",
        ]
    ]
    rows += [_row(one) for one in found["attacks"]]
    about = (
        f"{found['algorithm']} on {found['data']}, view {found['view']}, profile"
        f" {found['profile']}, {_scope(found)}"
    )
    table(HEADERS, rows, title=about)
    for sentence in _sentences(found):
        tell(f"- {sentence}")


def _row(one: dict[str, Any]) -> list[str]:
    if one["r_precision"] is None:
        return [one["name"], one["view"], *[""] * 7, one["verdict"]]
    low, high = one["low"], one["high"]
    span = "" if low is None else f"{one['advantage']:+.3f} ({low:+.3f} to {high:+.3f})"
    half = (
        ""
        if one["rounds_to_half"] is None
        else f"{one['rounds_to_half']} round{'s' if one['rounds_to_half'] > 1 else ''}"
    )
    numbers = [_number(one[name]) for name in ("precision", "recall", "r_precision", "auc")]
    name = one["name"] if one["named"] else f"{one['name']} (pseudonyms)"
    return [name, one["view"], *numbers, span, _number(one["worst"]), half, one["verdict"]]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _scope(found: dict[str, Any]) -> str:
    if found["view"] == "model":
        return f"seed {found['seed']}"
    rounds = f"{found['rounds']} round{'s' if found['rounds'] > 1 else ''}"
    parties = f"{found['cohort']} {'fixed ' if found['fixed'] else ''}users a round"
    onlookers = f"{found['watched']} of {found['cohort']} peers look on together"
    return (
        f"{rounds}, {onlookers if found['view'] == 'neighbour' else parties}, seed {found['seed']}"
    )


def _sentences(found: dict[str, Any]) -> list[str]:
    """What the figures are of, and what they do not say."""
    seen = found["seen"]
    said = [
        f"seen: {seen['users']} users, {seen['entries']} messages or sums, {seen['bytes']:,} bytes;"
        " truth: the rows trained on"
    ]
    if found["protect"]["secure_sum"] and found["view"] == "individual":
        said.append(
            "single messages are masked under this profile: this is what they would tell if the"
            " masks were broken"
        )
    if (of := found["equations"]) is not None:
        enough = (
            "as many as there are parties"
            if of["equations"] >= of["parties"]
            else "fewer than parties"
        )
        product = f"{of['rounds']} rounds x {of['numbers']} numbers = {of['equations']}"
        noise = f", under noise of {found['protect']['noise']}" if found["protect"]["noise"] else ""
        said.append(
            f"equations for each item: {product} for {of['parties']} parties: {enough}{noise}"
        )
    if any(not one.get("named", True) for one in found["attacks"]):
        said.append(
            "pseudonyms: whole histories without names; matched with users on half of the items,"
            " measured on the other half"
        )
    said += [f"{one['name']}: {one['note']}" for one in found["attacks"] if one.get("note")]
    accuracy = ", ".join(f"{name} {value:.4f}" for name, value in found["accuracy"].items())
    said.append(
        f"accuracy of the same training to its end, {found['protocol']}: {accuracy}"
        if accuracy
        else "accuracy: not measured"
    )
    said += _promised(found)
    return [
        *said,
        (
            "what no attack of the list found may still be there: a verdict is about these attacks"
            " alone"
        ),
    ]


def _promised(found: dict[str, Any]) -> list[str]:
    """What was spent of differential privacy, and what canaries say."""
    said = ["no proven bound: epsilon is infinite"]
    if found["epsilon"] is not None:
        of = f"of a budget of {found['budget']:g} at delta {found['delta']:g}"
        whole = (
            ""
            if found["epsilon_whole"] is None
            else f"; the training to its end has spent {found['epsilon_whole']:.3f}"
        )
        said = [f"proven bound: what was seen has spent epsilon {found['epsilon']:.3f} {of}{whole}"]
    if (own := found["canaries"]) is not None:
        guessed = (
            f"{own['right']} of {own['guesses']} guesses about {own['users']} canaries in"
            f" {own['rounds']} rounds were right"
        )
        promise = (
            "no epsilon was promised"
            if own["epsilon"] is None
            else f"promised for these rounds: {own['epsilon']:.3f}"
        )
        broken = own["epsilon"] is not None and own["epsilon_at_least"] > own["epsilon"]
        said.append(
            f"epsilon is {own['epsilon_at_least']:.3f} at least, at 95 % confidence: {guessed}"
            f" ({promise}; with so many canaries no more than {own['most']:.3f} can be shown)"
            + (": THE PROMISE IS BROKEN" if broken else "")
        )
    return said
