"""Parts of the report: escaping, numbers, labels, distributions, the style sheet."""

import re

import numpy as np
import pytest

from entrenous.report import figures, numbers
from entrenous.report.markup import Html, facts, folded, join, table, tag
from entrenous.report.runs import labels
from entrenous.report.theme import style
from entrenous.report.users import distribution
from entrenous.runs.store import StoredRun


def run(algorithm="fpl", *, seed=0, rounds=10, run="r", **settings) -> StoredRun:
    return StoredRun(
        None,
        {"algorithm": algorithm, "seed": seed, "rounds": rounds, "run": run, "settings": settings},
        [],
        {},
    )


def test_text_is_escaped_and_markup_is_not():
    assert (
        tag("p", "<b>", Html("<i>x</i>"), title='"&')
        == '<p title="&quot;&amp;">&lt;b&gt;<i>x</i></p>'
    )
    assert join("a", None, ["<", [1, 2.5]]) == "a&lt;12.5"
    assert folded("more & more", "x") == "<details><summary>more &amp; more</summary>x</details>"
    assert facts([("<", ">")]) == "<dl><div><dt>&lt;</dt><dd>&gt;</dd></div></dl>"


def test_what_a_page_cannot_hold_is_replaced():
    assert tag("p", "a\x00\u202eb\ud800") == "<p>a��b�</p>"


def test_a_table_has_headers():
    html = table("what", ["name", "n"], [["<a>", "1"]])
    assert "<caption><span>what</span></caption>" in html and 'aria-label="what"' in html
    assert '<th scope="col" class="t">name</th><th scope="col">n</th>' in html
    assert '<th scope="row">&lt;a&gt;</th><td>1</td>' in html


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (31_856, "31.9 kB"),
        (999_999, "1 MB"),
        (19_414_182_240, "19.4 GB"),
    ],
)
def test_sizes(nbytes, shown):
    assert numbers.size(nbytes) == f'<data value="{nbytes}">{shown}</data>'


def test_numbers_keep_their_exact_value():
    assert numbers.metric(0.36381952) == '<data value="0.36381952">0.3638</data>'
    assert numbers.metric(1682.0) == '<data value="1682.0">1,682</data>'
    assert numbers.metric(1.0) == '<data value="1.0">1.0000</data>'
    assert numbers.metric(float("nan")) == '<data value="nan">not a number</data>'
    assert numbers.signed(-0.5) == '<data value="-0.5">−0.5000</data>'
    assert numbers.count(1785.04) == '<data value="1785.04">1,785.0</data>'


@pytest.mark.parametrize(
    ("p", "shown"), [(0.0004, "< 0.001"), (0.0371, "0.037"), (0.9999, "1.000"), (1.0, "1.000")]
)
def test_p_values(p, shown):
    assert numbers.p_value(p) == f'<data value="{p}">{shown.replace("<", "&lt;")}</data>'


def test_labels_say_what_differs():
    assert labels([run("fpl"), run("fcf")]) == ["fpl", "fcf"]
    assert labels([run(pi=0.3), run("fcf")]) == ["fpl pi=0.3", "fcf"]
    assert labels([run(seed=0), run(seed=1), run("fcf", seed=1)]) == [
        "fpl seed 0",
        "fpl seed 1",
        "fcf",
    ]
    assert labels([run(rounds=10), run(rounds=20)]) == ["fpl 10 rounds", "fpl 20 rounds"]
    assert labels([run(run="a"), run(run="b")]) == ["fpl a", "fpl b"]
    assert labels([run(), run()]) == ["fpl", "fpl (2)"]


def test_long_settings_are_named_only_where_they_tell_runs_apart():
    long = {"learning_rate": 0.0123456789, "factors": 100}
    assert labels([run(**long), run("fcf")]) == ["fpl", "fcf"]
    assert all(
        len(label) <= 60 for label in labels([run(**long, pi=0.1), run(**long, pi="x" * 90)])
    )


def test_a_distribution_is_a_staircase_that_ends_at_all_users():
    x, y = distribution(np.array([0.5, 0.0, 0.5, 1.0]))
    assert list(zip(x, y, strict=True)) == [
        (0, 0),
        (0, 1 / 4),
        (0.5, 1 / 4),
        (0.5, 3 / 4),
        (1, 3 / 4),
        (1, 1),
    ]


def test_a_long_distribution_is_thinned_and_stays_true():
    values = np.random.default_rng(0).random(5000)
    x, y = distribution(values)
    assert len(x) <= 400 and y[-1] == 1 and x[-1] == values.max()
    assert all(share == (values <= at).mean() for at, share in list(zip(x, y, strict=True))[1::2])


def test_the_style_sheet_has_the_colours_of_the_figures_and_loads_nothing():
    css = style()
    light = dict(re.findall(r"--(s\d|ink|muted|line|paper): (#\w+)", css.split("@media")[0]))
    assert [light[f"s{n}"] for n in range(8)] == list(figures.COLOURS)
    assert (light["ink"], light["muted"], light["line"], light["paper"]) == (
        figures.INK,
        figures.MUTED,
        figures.GRID,
        figures.PAPER,
    )
    assert "url(" not in css and "@import" not in css
    assert "prefers-color-scheme: dark" in css and "@media print" in css
