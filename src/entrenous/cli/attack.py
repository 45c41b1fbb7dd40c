"""`entrenous attack`: colluding devices or peers against a federation, and what each defence leaves
of it.
"""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from .console import emit_json, progress_bar, table, tell
from .options import Load, Refit, Set, assignments

Many = Annotated[list[str] | None, Parameter(negative="")]


def attack(
    algorithm: str,
    /,
    *,
    data: str = "ml-100k",
    attack: str = "boost",
    share: float = 0.1,
    target: Many = None,
    targets: int = 1,
    defence: Many = None,
    rounds: int | None = None,
    seed: int = 0,
    seeds: int = 1,
    k: int = 10,
    settings: Set = None,
    attack_set: Annotated[list[str] | None, Parameter(name="--attack-set", negative="")] = None,
    protocol: str | None = None,
    refit: Refit = None,
    load: Load = None,
    json: bool = False,
) -> None:
    """Train a federation with and without colluding devices, and print what the attack reaches
    under each defence.

    Colluders are added to the users of the data; every figure is of the others. er@10 is the share
    of those without the target whose top 10 has it; hr@10 is what the honest lose or keep. All that
    colluders send is valid and signed where there are signatures: no check of formats stops them.
    Defences need to see every update, so none goes together with secure sums or noise: who chooses
    `robust` lets the server read histories. docs/poisoning.md says what was measured, and what is
    not stopped.

    Example: entrenous attack pfpl+ --attack pip --share 0.1 --defence none --defence robust --set
    cohort=94 --set factors=20 --rounds 100

    Attacks of devices with a server: {poisons}. Of peers: {peerpoisons}.

    Parameters
    ----------
    algorithm:
        An algorithm with a server or between peers, by its name or place (./my_algo.py).
    data:
        A data set, file or folder.
    attack:
        What colluders do: one of the attacks above.
    share:
        Share of all devices that collude.
    target:
        The item to promote, by its id; may be repeated. Without one, --targets are drawn.
    targets:
        How many items to draw, among those with 5 to 9 consumers; each is a training of its own.
    defence:
        May be repeated. With a server: {defences}; default: none and robust. Between peers:
        {peerdefences}; default: all of these.
    rounds:
        Rounds of training; default: the algorithm's own.
    seed:
        Names all randomness of the first training, and draws the targets.
    seeds:
        Trainings for each target, with seeds one after the other.
    k:
        Length of the lists of er@K.
    settings:
        A setting of the algorithm, name=value; may be repeated.
    attack_set:
        A setting of the attack, name=value; may be repeated, such as strength=10. An unknown name
        lists those that there are.
    protocol:
        How rows are held out, as for `entrenous run`.
    refit:
        Whether devices train on validation rows too, as for `entrenous run`; --no-refit: on the
        training rows alone.
    json:
        Print one JSON object on stdout.
    """
    from ..audit.plan import AttackPlan
    from ..audit.robustness import attack as measure

    plan = AttackPlan(
        algorithm=algorithm,
        data=data,
        attack=attack,
        share=share,
        target=tuple(target or ()),
        targets=targets,
        defences=tuple(defence or ()),
        settings=assignments(settings),
        attack_settings=assignments(attack_set, "--attack-set"),
        protocol=protocol,
        refit=refit,
        rounds=rounds,
        seed=seed,
        seeds=seeds,
        k=k,
        load=assignments(load, "--load"),
    )
    with progress_bar(algorithm) as progress:
        found = measure(plan, progress=progress)
    if json:
        emit_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    """The comparison as a table, and who attacked what."""
    k = found["k"]
    names = [
        "defence",
        "hr@10",
        "hr@10_attacked",
        f"er@{k}_before",
        f"er@{k}",
        f"er@{k}_most",
        "rounds_to_half",
        "refused",
    ]
    rows = [["-" if row[name] is None else row[name] for name in names] for row in found["rows"]]
    about = (
        f"{found['algorithm']} on {found['data']}, {found['protocol']}, {found['rounds']} rounds"
    )
    who = f"{found['attack']}, {found['colluders']} colluders beside {found['honest']} honest users"
    table(names, rows, title=f"{about}: {who}")
    promoted = ", ".join(
        f"{one['item']} ({one['consumers']} consumers)" for one in found["targets"]
    )
    tell(f"- targets: {promoted}")
    tell(f"- the attackers know: {found['knows']}; source: {found['source']}")
    tell("- a defence sees every update singly: it cannot be had together with secure sums")
