"""Accuracy against leakage: the sentence, the cards and the table of audited runs, each number that
of a run or of an audit.
"""

import re

import browser
import pytest
from report_runs import audits_of, three_runs
from stored_runs import Page, page

from entrenous.report import leakage
from entrenous.report.html import write_report
from entrenous.report.runs import groups


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return three_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def audits(runs):
    return audits_of(runs)


@pytest.fixture(scope="module")
def report(runs, audits, tmp_path_factory):
    return write_report(runs, tmp_path_factory.mktemp("page") / "report.html", audits=audits)


@pytest.fixture(scope="module")
def read(report) -> Page:
    return Page(report.read_text(encoding="utf-8"))


def best_of(audit):
    ranked = [attack for attack in audit["attacks"] if attack["r_precision"] is not None]
    return max(ranked, key=lambda attack: (attack["r_precision"], attack["name"]))


def percent(value: float) -> str:
    text = f"{100 * value:.0f}"
    if text in ("0", "100") and 0 < value < 1:
        text = f"{100 * value:.1f}"
    return f"{text}\N{NO-BREAK SPACE}%"


def test_the_page_is_well_formed_and_the_rest_is_folded(read):
    assert read.wrong == []
    open_sections = re.findall(r"<section [^>]+><h2 [^>]+>([^<]+)<", read.html)
    assert open_sections == ["Where each run stands", "What each person gave away"]
    assert '<summary><h2 id="g1-2-h">Results</h2></summary>' in read.html
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_sentence_has_the_numbers_of_runs_and_audits(read, runs, audits):
    published, private, _ = (run.manifest for run in runs)
    by_leak = sorted(
        (published, private), key=lambda manifest: best_of(audits[manifest["run"]])["r_precision"]
    )
    least, most = (best_of(audits[manifest["run"]]) for manifest in by_leak)
    hits = [f"{100 * manifest['metrics']['hr@10']:.0f} of 100" for manifest in by_leak]
    (told,) = re.findall(r'<p class="story">(.*?)</p>', read.html)
    words = re.sub("<[^>]+>", "", told)
    assert f"{hits[0]} people find a held-out item among their ten best" in words
    assert (
        f"a curious server, after 4 rounds, guesses {percent(least['r_precision'])} of a person"
        in words
    )
    assert f"(from popularity alone: {percent(least['popularity_r_precision'])})" in words
    assert words.endswith(f"it is {hits[1]} and {percent(most['r_precision'])}.")


def test_each_run_has_a_card_with_its_verdict(read, runs, audits):
    cards = re.findall(r"<article>(.*?)</article>", read.html, re.DOTALL)
    assert len(cards) == len(runs)
    for card, run in zip(cards, runs, strict=True):
        hits = run.manifest["metrics"]["hr@10"]
        assert f'<data value="{hits!r}">{100 * hits:.0f} of 100</data>' in card
        audit = audits.get(run.manifest["run"])
        if audit is None:
            assert "is on the server" in card and "Not attacked" in card
        else:
            words = leakage.VERDICTS[best_of(audit)["verdict"]][1]
            assert words in card and percent(best_of(audit)["r_precision"]) in card


def test_without_an_audit_there_is_no_story(runs, tmp_path):
    found = page(tmp_path, *runs, audits={"of another run": {}})
    assert found.wrong == [] and 'class="story"' not in found.html
    assert "Where each run stands" not in found.text


def test_a_run_on_which_no_attack_was_tried_is_no_point(runs, audits):
    (group,) = groups(runs)
    name = str(runs[0].manifest["run"])
    not_tried = {**audits[name], "attacks": []}
    points = leakage.points_of(group, {**audits, name: not_tried})
    assert [point.shown.run for point in points] == [runs[1], runs[2]]
    assert leakage.points_of(group, {name: not_tried}) == []


def test_a_card_says_what_is_known_because_people_took_part(runs, audits):
    """Of the second run the attack was tried on people who never took part, of the first not."""
    (group,) = groups(runs)
    name = str(runs[1].manifest["run"])
    part = {"people": 12, "guessable": 0.41, "took_part": 0.43, "because": -0.004, "low": -0.1}
    tried = {**best_of(audits[name]), "participation": part}
    points = leakage.points_of(group, {**audits, name: {**audits[name], "attacks": [tried]}})
    first, second, central = (str(leakage._card(point)) for point in points)
    assert leakage.UNTRIED in first and leakage.UNTRIED not in second + central
    assert "-0.4\N{NO-BREAK SPACE}points" in second and "of 12 people" in second
    without, with_them = second.index(percent(0.41)), second.index(percent(0.43))
    assert without < second.index("without them") < with_them < second.index("with them")
    assert "took part" not in central


def test_profiles_tell_runs_of_one_algorithm_apart(read):
    labels = [row[0] for row in read.tables["The runs"][1:3]]
    assert [label.split(" ", 1)[1] for label in labels] == ["as published", "private"]


# ---- in a real browser ----------------------------------------------------------------------------


@pytest.mark.skipif(browser.installed() is None, reason="no browser is installed")
@pytest.mark.parametrize("width", [browser.PHONE, browser.DESKTOP])
def test_the_page_is_no_wider_than_the_window(report, width, tmp_path):
    inner, page_width, names = browser.measured(report, tmp_path, width)
    assert inner == width and page_width == width and names == ""


def test_the_line_of_popularity_stands_at_the_smaller_guess(runs, audits):
    """Audits of other people have another guess; a point right of the smaller one leaks more."""

    def line(points) -> str:
        (dashed,) = re.findall(r"<[^>]*dasharray[^>]*4 4[^>]*>", str(leakage.plane(points, "x")))
        return dashed

    def guessing(point, share: float):
        return point._replace(attack={**point.attack, "popularity_r_precision": share})

    first, second, *rest = leakage.points_of(groups(runs)[0], audits)
    smaller = guessing(second, 0.4)
    usual = line([guessing(first, 0.5), smaller, *rest])
    assert line([guessing(first, 0.9), smaller, *rest]) == usual
    assert line([guessing(first, 0.1), smaller, *rest]) != usual
