"""Figures: labels, a paper's values, the same bytes, nothing of a name taken for markup."""

import re
import sys
from xml.etree import ElementTree

import pytest

from entrenous.core.errors import InputError
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


def test_a_figure_has_the_id_that_it_is_given_and_no_other():
    for svg in drawn().values():
        assert " id=" not in svg and "href" not in svg
    look = figures.FigureFormat(title="t", x_label="x", y_label="y", name="one")
    assert re.findall(r' id="([^"]+)"', figures.lines(SERIES, look)) == ["one"]


def test_points_lie_where_the_axes_say():
    """The ticks of both axes and the marks of a series, read back from the figure."""
    look = figures.FigureFormat("t", x_label="x", y_label="y")
    svg = figures.scatter({"a": ([0.0, 4.0, 10.0], [100.0, 200.0, 400.0])}, look)
    root = ElementTree.fromstring(svg)
    ticks = {
        "".join(each.itertext()): (float(each.get("x")), float(each.get("y")))
        for each in root.iter(f"{SVG}text")
        if each.get("x")
    }
    marks = [(float(each.get("cx")), float(each.get("cy"))) for each in root.iter(f"{SVG}circle")]
    # The last circle is that of the legend.
    assert len(marks) == 4
    for (x, y), across, up in zip(marks[:3], ("0", "4", "10"), ("100", "200", "400"), strict=True):
        assert x == pytest.approx(ticks[across][0], abs=0.11)
        assert y == pytest.approx(ticks[up][1] - 4, abs=0.11)


@pytest.mark.parametrize("log_x", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        [],
        [float("nan")],
        [float("inf"), 1.0],
        [0.0, 0.0],
        [-1e300, 1e300],
        [1e-300, 2e-300],
        [7.0, 7.0 + 1e-12],
    ],
)
def test_odd_numbers_make_a_figure_without_odd_places(values, log_x):
    look = figures.FigureFormat("t", x_label="x", y_label="y")
    shown = [
        figures.lines({"a": (values, values)}, look, log_x=log_x),
        figures.scatter({"a": (values, values)}, look),
        figures.bars([str(value) for value in values], {"a": values}, look),
    ]
    for svg in shown:
        ElementTree.fromstring(svg)
        places = re.findall(r' (?:x|y|cx|cy|d|width|points)="([^"]*)"', svg)
        assert not [place for place in places if "nan" in place or "inf" in place]


def test_a_gap_is_left_where_there_is_no_number():
    look = figures.FigureFormat("t", x_label="x", y_label="y")
    svg = figures.lines({"a": ([0, 1, 2, 3], [1, float("nan"), 2, 3])}, look, marks=False)
    curve = re.findall(r'<path d="([^"]+)" style="fill:none;stroke:#1d5fd1', svg)[0]
    assert curve.count("M") == 2 and curve.count("L") == 1


def test_bars_of_positive_values_stand_on_zero():
    look = figures.FigureFormat("t", x_label="x", y_label="y")
    svg = figures.bars(["g"], {"a": [2.0], "b": [4.0]}, look)
    boxes = re.findall(r'<rect style="[^"]+" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', svg)
    (left, short), (also, long) = [box for box in boxes if box[0] != "0"]
    assert left == also and float(long) == pytest.approx(2 * float(short), abs=0.2)


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


@pytest.mark.skipif(not figures.can_print(), reason="svglib is not installed")
@pytest.mark.parametrize("kind", ["lines", "scatter", "bars"])
def test_a_figure_for_print_has_the_same_bytes_each_time(kind):
    figure = drawn()[kind]
    assert figure.pdf().startswith(b"%PDF-") and figure.pdf() == drawn()[kind].pdf()


def test_without_svglib_print_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "svglib.svglib", None)
    monkeypatch.setitem(sys.modules, "reportlab.graphics", None)
    with pytest.raises(
        InputError, match=r"svglib is not installed; pip install 'entrenous\[plots\]'"
    ):
        drawn()["lines"].pdf()
