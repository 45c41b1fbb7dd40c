"""Figures: labels, a paper's values, the same bytes, nothing of a name taken for markup."""

import re
from xml.etree import ElementTree

import pytest

from entrenous.report import figures

SERIES = {"sFPL": ([0, 0.5, 1], [0.1, 0.3, 0.2]), "pFPL+": ([0, 0.5, 1], [0.2, 0.35, 0.25])}
PAPER = {"pFPL+": ([0.5, 1], [0.33, 0.3])}
SVG = "{http://www.w3.org/2000/svg}"


def words(svg: str) -> list[str]:
    return [
        "".join(text.itertext()).strip() for text in ElementTree.fromstring(svg).iter(f"{SVG}text")
    ]


def drawn():
    look = figures.FigureFormat("Figure 2", x_label="pi", y_label="F1@10")
    return {
        "lines": figures.lines(SERIES, look, reference=PAPER),
        "scatter": figures.scatter(SERIES, look, reference=PAPER, joined=True),
        "bars": figures.bars(
            ["a", "b"],
            {"sFPL": [1, 2], "pFPL+": [3, float("nan")]},
            look,
            reference={"pFPL+": [2, 2]},
        ),
    }


@pytest.mark.parametrize("kind", ["lines", "scatter", "bars"])
def test_a_figure_carries_its_labels(kind):
    svg = drawn()[kind]
    assert {"pi", "F1@10", "Figure 2", "sFPL", "pFPL+", "pFPL+ (paper)"} <= set(words(svg))
    root = ElementTree.fromstring(svg)
    assert (
        root.get("role") == "img"
        and root.get("aria-label") == "Figure 2"
        and root[0].tag == f"{SVG}title"
    )


@pytest.mark.parametrize("kind", ["lines", "scatter", "bars"])
def test_the_same_data_give_the_same_bytes(kind):
    assert drawn()[kind] == drawn()[kind]


def test_bars_name_their_groups():
    assert {"a", "b"} <= set(words(drawn()["bars"]))


def test_a_name_is_shown_as_it_is_written():
    names = ["_hidden", "$x^2$", "<script>alert(1)</script>", "a\x00b", "映画"]
    svg = figures.lines(
        {name: ([0, 1], [n, n + 1]) for n, name in enumerate(names)},
        figures.FigureFormat(title="\\1 <&>", x_label="$", y_label="%"),
    )
    assert {
        "_hidden",
        "$x^2$",
        "<script>alert(1)</script>",
        "a b",
        "映画",
        "$",
        "%",
        "\\1 <&>",
    } <= set(words(svg))


def test_a_long_name_is_cut():
    assert "x" * 39 + "…" in words(
        figures.lines(
            {"x" * 200: ([0, 1], [0, 1])}, figures.FigureFormat(title="t", x_label="x", y_label="y")
        )
    )


def test_an_order_keeps_colours():
    svg = figures.lines(
        {"b": ([0, 1], [0, 1])},
        figures.FigureFormat(title="t", x_label="x", y_label="y"),
        order=["a", "b"],
    )
    assert figures.colour(1) in svg and figures.colour(0) not in svg


def test_ids_are_of_this_figure_and_all_used():
    for svg in drawn().values():
        ids = re.findall(r' id="([^"]+)"', svg)
        assert len(ids) == len(set(ids)) and set(ids) == set(
            re.findall(r'(?:href="|url\()#([^")]+)', svg)
        )
    first, second = (
        figures.lines(SERIES, figures.FigureFormat(title="t", x_label="x", y_label="y", name=name))
        for name in ("one", "two")
    )
    assert not set(re.findall(r' id="([^"]+)"', first)) & set(re.findall(r' id="([^"]+)"', second))


def test_settings_of_the_process_are_left_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    drawn()
    assert dict(matplotlib.rcParams) == before


def test_colours_can_be_read_on_white():
    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    contrast = {
        colour: 1.05 / (luminance(colour) + 0.05)
        for colour in (*figures.COLOURS, figures.INK, figures.MUTED)
    }
    assert min(contrast.values()) >= 4.5


def test_without_matplotlib_a_figure_says_what_to_install(monkeypatch):
    monkeypatch.setattr(figures, "can_draw", lambda: False)
    for svg in drawn().values():
        assert words(svg) == [
            "Figure 2",
            "no figures: Matplotlib is not installed; pip install 'entrenous[plots]'",
        ]


@pytest.mark.parametrize("kind", ["lines", "scatter", "bars"])
def test_a_figure_for_print_has_the_same_bytes_each_time(kind):
    figure = drawn()[kind]
    assert figure.pdf().startswith(b"%PDF-") and figure.pdf() == drawn()[kind].pdf()
