"""The data that left the devices: the arrays, what they reveal, and their bytes by the ledger of
the run.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.contract.declared import declared
from ..runs.plan import algorithm_of
from . import numbers
from .markup import Child, Html, join, table, tag
from .runs import Group, ShownRun, kind_of, listed


def what_left(group: Group) -> Html:
    """The section on communication: bytes and vectors of federated runs, messages between nodes,
    the meaning of each array, and the histories that a centralised run collects.
    """
    served: list[ShownRun] = []
    gossip: list[ShownRun] = []
    central: list[ShownRun] = []
    # The declaration depends on the algorithm, not on settings or seed.
    alike: dict[int, list[ShownRun]] = {}
    for shown in group.runs:
        if not shown.device_rounds:
            central.append(shown)
            continue
        (gossip if shown.gossips else served).append(shown)
        settings_class, _ = kind_of(shown.manifest["algorithm"])
        alike.setdefault(id(settings_class), []).append(shown)
    return join(
        _traffic(served) if served else None,
        _pushed(gossip) if gossip else None,
        [_disclosed(runs) for runs in alike.values()],
        [_central(shown) for shown in central],
    )


def _traffic(runs: list[ShownRun]) -> Html:
    caption = join(
        tag("b", "Sent and received"),
        ", on average: counted from the arrays themselves, framing excluded",
    )
    head = ["run", "up", "rows up", "down", "vectors", "rounds", "up", "down", "up", "down"]
    counted = table(caption, head, [_counted(shown) for shown in runs], label="Sent and received")
    spans = {"a device, a round": 4, "a device, whole training": 3, "all devices": 2}
    words = (
        "Rows: items whose update a device sent. Vectors: item vectors exchanged, down and up, as"
        " FPL counts them (section 6.3)."
    )
    return join(_with_spans(counted, spans), tag("p", words, _exceptions(runs), class_="small"))


def _exceptions(runs: list[ShownRun]) -> str:
    """Sentences on the extent of the sums."""
    words = ""
    if any("folds" in shown.manifest for shown in runs):
        words += " Sums over all folds."
    if any(shown.manifest["patience"] for shown in runs):
        words += " Training to find the number of rounds is not counted."
    return words


def _with_spans(html: Html, spans: Mapping[str, int]) -> Html:
    """The table with a row of headings above its head: {words: columns of the heading}, from the
    second column on.
    """
    cells = [tag("td")]
    for words, columns in spans.items():
        cells.append(tag("th", words, colspan=columns, scope="colgroup"))
    return Html(html.replace("<thead>", f"<thead>{tag('tr', cells, class_='spans')}", 1))


def _counted(shown: ShownRun) -> list[Child]:
    ledger = shown.manifest["ledger"]
    up = ledger["bytes_up"]
    down = ledger["bytes_down"]
    times = shown.device_rounds
    users = shown.manifest["catalogue"]["users"]
    return [
        shown.named(),
        # A device in a round.
        numbers.size(up / times),
        numbers.count(ledger["rows_up"] / times) if ledger["rows_up"] else "no rows",
        numbers.size(down / times),
        numbers.count(ledger["vectors"] / times),
        # A device in the whole training.
        numbers.count(times / users),
        numbers.size(up / users),
        numbers.size(down / users),
        # All devices.
        numbers.size(up),
        numbers.size(down),
    ]


def _pushed(runs: list[ShownRun]) -> Html:
    """Messages and bytes between nodes without a server."""
    caption = join(
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
    rows = [_messages(shown) for shown in runs]
    counted = table(caption, head, rows, label="Pushed and received")
    spans = {"a node, a push": 3, "a node, whole training": 3, "all nodes": 4}
    words = (
        "There is no server: a node pushes its model to a few others. Reached nobody: lost on the"
        " way, or their receiver was away. Refused: models that their receiver did not take,"
        " because they were not finite, too large or of another length."
    )
    return join(_with_spans(counted, spans), tag("p", words, _exceptions(runs), class_="small"))


def _messages(shown: ShownRun) -> list[Child]:
    ledger = shown.manifest["ledger"]
    up = ledger["bytes_up"]
    down = ledger["bytes_down"]
    pushes = shown.device_rounds
    nodes = shown.manifest["catalogue"]["users"]
    return [
        shown.named(),
        # A node in a push.
        numbers.count(ledger["messages"] / pushes),
        numbers.size(up / pushes),
        numbers.size(down / pushes),
        # A node in the whole training.
        numbers.count(pushes / nodes),
        numbers.size(up / nodes),
        numbers.size(down / nodes),
        # All nodes.
        numbers.count(ledger["messages"]),
        numbers.size(up),
        numbers.count(ledger["lost"]),
        numbers.count(ledger["refused"]),
    ]


def _disclosed(runs: list[ShownRun]) -> Html:
    """The arrays that leave a device, and what they reveal, by the algorithm's declaration."""
    name = runs[0].manifest["algorithm"]
    settings_class, _ = kind_of(name)
    sends = () if settings_class is None else declared(algorithm_of(name, {})).sends
    labels = listed(runs)
    if not sends:
        return tag("p", labels, ": what this algorithm discloses is not known to this version.")
    caption = join(
        labels,
        ": every array that leaves a device; the history is not sent, and"
        f" `entrenous explain {name}` says what can be computed from what is",
    )
    rows = []
    for array in sends:
        what = join(tag("code", array.name), tag("small", array.said))
        rows.append([what, array.when, array.reveals])
    head = ["array", "when", "what it reveals"]
    return table(caption, head, rows, prose=(1, 2), label=f"What leaves a device under {name}")


def _central(shown: ShownRun) -> Html:
    catalogue = shown.manifest["catalogue"]
    words = (
        " is centralised: the server sees every history,"
        f" {catalogue['interactions']:,} interactions of {catalogue['users']:,} users. Nothing"
        " stays on a device."
    )
    return tag("p", shown.named(), words)
