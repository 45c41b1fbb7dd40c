"""What left the devices: which arrays, what they reveal, and how much, counted by the ledger of the
run.
"""

from __future__ import annotations

from ..core.contract.declared import declared
from ..runs.plan import algorithm_of
from . import numbers
from .markup import Child, Html, join, table, tag
from .runs import Group, ShownRun, kind_of


def what_left(group: Group) -> Html:
    """The section on communication: bytes and vectors of federated runs, messages between nodes,
    what each array reveals, and what a centralised run collects."""
    sent = [shown for shown in group.runs if shown.device_rounds]
    gossip, served = (
        [shown for shown in sent if shown.gossips is without] for without in (True, False)
    )
    kept = [shown for shown in group.runs if not shown.device_rounds]
    alike: dict[
        int, list[ShownRun]
    ] = {}  # what leaves a device depends on the algorithm, not on settings or seed
    for shown in sent:
        alike.setdefault(id(kind_of(shown.manifest["algorithm"])[0]), []).append(shown)
    return join(
        _traffic(served) if served else None,
        _pushed(gossip) if gossip else None,
        [_disclosed(runs) for runs in alike.values()],
        [_central(shown) for shown in kept],
    )


def _traffic(runs: list[ShownRun]) -> Html:
    said = join(
        tag("b", "Sent and received"),
        ", on average: counted from the arrays themselves, framing excluded",
    )
    head = ["run", "up", "rows up", "down", "vectors", "rounds", "up", "down", "up", "down"]
    counted = table(said, head, [_counted(shown) for shown in runs], label="Sent and received")
    spans: list[tuple[str, int]] = [
        ("", 1),
        ("a device, a round", 4),
        ("a device, whole training", 3),
        ("all devices", 2),
    ]
    words = (
        "Rows: items whose update a device sent. Vectors: item vectors exchanged, down and up, as"
        " FPL counts them (section 6.3)."
    )
    return join(_with_spans(counted, spans), tag("p", words, _exceptions(runs), class_="small"))


def _exceptions(runs: list[ShownRun]) -> str:
    """What sums are over, and what is not part of them."""
    folds = " Sums over all folds." if any("folds" in shown.manifest for shown in runs) else ""
    searched = any(shown.manifest["patience"] for shown in runs)
    return folds + (" Training to find the number of rounds is not counted." if searched else "")


def _with_spans(html: Html, spans: list[tuple[str, int]]) -> Html:
    """The table with a row of headings above its head."""
    cells = [
        tag("th", words, colspan=n, scope="colgroup") if words else tag("td") for words, n in spans
    ]
    return Html(html.replace("<thead>", f"<thead>{tag('tr', cells, class_='spans')}", 1))


def _counted(shown: ShownRun) -> list[Child]:
    ledger, users = shown.manifest["ledger"], shown.manifest["catalogue"]["users"]
    times = shown.device_rounds
    a_round: list[Child] = [
        numbers.size(ledger["bytes_up"] / times),
        numbers.count(ledger["rows_up"] / times) if ledger["rows_up"] else "no rows",
        numbers.size(ledger["bytes_down"] / times),
        numbers.count(ledger["vectors"] / times),
    ]
    a_device = [
        numbers.count(times / users),
        numbers.size(ledger["bytes_up"] / users),
        numbers.size(ledger["bytes_down"] / users),
    ]
    return [
        shown.named(),
        *a_round,
        *a_device,
        numbers.size(ledger["bytes_up"]),
        numbers.size(ledger["bytes_down"]),
    ]


def _pushed(runs: list[ShownRun]) -> Html:
    """Messages and bytes between nodes without a server."""
    said = join(
        tag("b", "Pushed and received"),
        ", on average: counted from the messages themselves, framing excluded",
    )
    head = [
        "run",
        "messages",
        "sent",
        "received",
        "pushes",
        "sent",
        "received",
        "messages",
        "sent",
        "reached nobody",
        "refused",
    ]
    counted = table(said, head, [_messages(shown) for shown in runs], label="Pushed and received")
    spans: list[tuple[str, int]] = [
        ("", 1),
        ("a node, a push", 3),
        ("a node, whole training", 3),
        ("all nodes", 4),
    ]
    words = (
        "There is no server: a node pushes its model to a few others. Reached nobody: lost on the"
        " way, or their receiver was away. Refused: models that their receiver did not take,"
        " because they were not finite, too large or of another length."
    )
    return join(_with_spans(counted, spans), tag("p", words, _exceptions(runs), class_="small"))


def _messages(shown: ShownRun) -> list[Child]:
    ledger, users, pushes = (
        shown.manifest["ledger"],
        shown.manifest["catalogue"]["users"],
        shown.device_rounds,
    )
    up, down = ledger["bytes_up"], ledger["bytes_down"]
    a_push: list[Child] = [
        numbers.count(ledger["messages"] / pushes),
        numbers.size(up / pushes),
        numbers.size(down / pushes),
    ]
    a_node = [numbers.count(pushes / users), numbers.size(up / users), numbers.size(down / users)]
    everything = [
        numbers.count(ledger["messages"]),
        numbers.size(up),
        numbers.count(ledger["lost"]),
        numbers.count(ledger["refused"]),
    ]
    return [shown.named(), *a_push, *a_node, *everything]


def _disclosed(runs: list[ShownRun]) -> Html:
    name = runs[0].manifest["algorithm"]
    found = declared(algorithm_of(name, {})).sends if kind_of(name)[0] is not None else ()
    names = [join(", " if n else None, shown.named()) for n, shown in enumerate(runs)]
    if not found:
        return tag("p", names, ": what this algorithm discloses is not known to this version.")
    computed = (
        f"; the history is not sent, and `entrenous explain {name}` says what can be computed from"
        " what is"
    )
    said = join(names, f": every array that leaves a device{computed}")
    rows = [
        [join(tag("code", one.name), tag("small", one.said)), one.when, one.reveals]
        for one in found
    ]
    head = ["array", "when", "what it reveals"]
    return table(
        said,
        head,
        rows,
        prose=(1, 2),
        label=f"What leaves a device under {runs[0].manifest['algorithm']}",
    )


def _central(shown: ShownRun) -> Html:
    rows = shown.manifest["catalogue"]
    said = (
        f" is centralised: the server sees every history, {rows['interactions']:,} interactions of"
        f" {rows['users']:,} users. Nothing stays on a device."
    )
    return tag("p", shown.named(), said)
