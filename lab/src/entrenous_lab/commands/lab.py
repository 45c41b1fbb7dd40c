"""`entrenous experiment` and `bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from entrenous.cli.console import emit_json, goes_on, progress_bar, table, tell
from entrenous.core.errors import InputError
from entrenous.core.keywords import at_least

# The package of the benches, and the constant of its files that lists them.
BENCHES = ("entrenous_lab.benches", "BENCHES")


def bench_names() -> list[str]:
    """Returns the names of the benches, and imports none of them: some take seconds."""
    from entrenous.core.registry.discover import names_offered

    (folder,) = import_module(BENCHES[0]).__path__
    names: list[str] = []
    for path in Path(folder).glob("[!_]*.py"):
        names += names_offered(path, BENCHES[1])
    return sorted(names)


def experiment(
    name: str,
    /,
    *,
    quick: bool = False,
    seeds: int = 0,
    data: tuple[str, ...] = (),
    with_: Annotated[list[str] | None, Parameter(name="--with", negative="")] = None,
    threads: int = 0,
    out: Path = Path("experiments"),
    json: bool = False,
) -> None:
    """Rerun a table or figure of a paper: ours beside the paper's numbers. `field` is the table of
    the systems that today's papers compare: printed, leaky and honest.

    Parameters
    ----------
    name:
        One of {experiments}.
    quick:
        An excerpt, which the rows say: some minutes on two cores (the tables of FBALF about eight,
        `fpl-table2` up to fifteen).
    seeds:
        How many seeds, where a table has seeds; 0 = as many as it usually has.
    data:
        Which data sets, of those that a table has; may be repeated.
    with_:
        The place of your own algorithm (./mine.py), which joins the table `field` as a line of its
        own; may be repeated.
    threads:
        Threads over devices, 0 = all cores.
    out:
        Where tables and figures go.
    json:
        Print one JSON object on stdout.
    """
    from entrenous_lab.papers.render import text
    from entrenous_lab.papers.runner import run_experiment

    at_least("--threads", threads, 0)
    at_least("--seeds", seeds, 0)
    with goes_on("start it again: what it has trained is remembered"), progress_bar() as progress:
        result = run_experiment(
            name,
            quick=quick,
            seeds=seeds,
            only=data,
            own=tuple(with_ or ()),
            out=out,
            threads=threads,
            progress=progress,
        )
    if json:
        emit_json(result.as_json())
    else:
        tell(text(result))


def bench(
    name: str, /, *, threads: int = 0, devices: int | None = None, json: bool = False
) -> None:
    """Measure speed or memory against a named peer or limit, in this run on this machine.

    Parameters
    ----------
    name:
        One of {benches}.
    threads:
        Threads, 0 = all cores.
    devices:
        How many, in benches of a server's nodes and of growth; default: as the limit is said for.
    json:
        Print one JSON object on stdout.
    """
    from entrenous.core.registry.discover import offered, pick

    name = pick("bench", name, {known: known for known in bench_names()})
    at_least("--threads", threads, 0)
    with _libraries_of(name), progress_bar() as progress:
        measure = offered(*BENCHES, name)
        found = {"bench": name, **measure(threads, progress, **_sized(name, measure, devices))}
    if json:
        emit_json(found)
    else:
        table(
            ["figure", "value"],
            [
                [key, str(round(value, 4) if isinstance(value, float) else value)]
                for key, value in found.items()
            ],
        )


@contextmanager
def _libraries_of(name: str) -> Iterator[None]:
    """Raises InputError for a bench that needs a library which is not installed."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise InputError(
            f"bench {name}",
            f"it needs {missing.name}, which is not installed",
            fix="pip install 'entrenous[network]'",
        ) from None


def _sized(name: str, measure: Callable[..., object], devices: int | None) -> dict[str, int]:
    """What a bench is told of its size. Raises InputError for one that has none."""
    if devices is None:
        return {}
    if "devices" not in signature(measure).parameters:
        raise InputError("--devices", f"the bench {name} has no devices", fix="leave it out")
    at_least("--devices", devices, 2)
    return {"devices": devices}
