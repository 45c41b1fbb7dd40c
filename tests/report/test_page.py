"""The report of real runs: well-formed, self-contained, safe, the same twice, and with the numbers
of the manifests.
"""

import re

import pytest
from stored_runs import HOSTILE, Page, page, stored

from entrenous.core.errors import InputError
from entrenous.evaluation.chance import difference
from entrenous.report.html import write_report
from entrenous.systems.fpl import FPL

LISTED = [
    {"item": "i3", "title": HOSTILE, "score": 2.5},
    {"item": '"><img src=x onerror=alert(1)>', "title": "Film 7", "score": -1.25},
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """FPL with a learning curve, and popularity."""
    out = tmp_path_factory.mktemp("runs")
    return stored(out, "fpl", protocol="loo-5", every=2), stored(out, "popular", protocol="loo-5")


@pytest.fixture(scope="module")
def read(runs, tmp_path_factory) -> Page:
    return page(tmp_path_factory.mktemp("page"), *runs, recommendations=LISTED, user="u7")


# ---- the page ------------------------------------------------------------------------------------


def test_it_is_well_formed(read):
    assert read.wrong == []
    assert read.html.startswith('<!DOCTYPE html>\n<html lang="en">')
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids)) > 10


def test_it_loads_nothing_and_runs_nothing(read):
    addresses = [
        value
        for _, attributes in read.tags
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href")
    ]
    assert addresses == []
    assert set(re.findall(r"https?://[^\s\"'<)]+", read.html)) == {"http://www.w3.org/2000/svg"}
    assert not {"script", "link", "iframe", "img", "object", "form", "base"} & {
        name for name, _ in read.tags
    }
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]
    assert "@import" not in read.html and "url(" not in re.sub(r"url\(#[\w-]+\)", "", read.html)


def test_results_come_first_and_the_rest_is_folded(read):
    """Each section is named by its heading, which its summary shows."""
    ids = {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    assert {section["aria-labelledby"] for section in read.all("section")} <= ids
    first, *_ = re.findall(r"<section [^>]+>(.*?)</section>", read.html, re.DOTALL)
    assert first.startswith("<h2") and "Sampled ranking" in first
    folded = re.findall(r"<details><summary><h2[^>]*>([^<]+)</h2>", read.html)
    assert folded == [
        "User by user",
        "Fairness",
        "Significance",
        "Learning",
        "Categories",
        "What was run",
        "Recommended",
    ]


def test_it_can_be_read_without_seeing_it(read):
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in read.all("svg"))
    assert all(
        frame["role"] == "region" and frame["tabindex"] == "0"
        for frame in read.all("div")
        if frame.get("class") == "scroll"
    )
    assert len(read.all("caption")) == len(read.all("table")) > 8
    assert all(cell["scope"] in ("row", "col", "colgroup") for cell in read.all("th"))
    assert len(read.all("h1")) == 1


def test_what_comes_from_data_is_escaped(read):
    assert "<script" not in read.html and "<img" not in read.html
    assert HOSTILE in read.text
    listed = read.tables["Top 2 for user u7"]
    assert listed[1:] == [
        ["1", HOSTILE, "i3"],
        ["2", "Film 7", '"><img src=x onerror=alert(1)>'],
    ]
    assert read.row("bias_disparity@10 by category", HOSTILE) and "<script" not in read.html


def test_hostile_text_in_a_manifest_is_escaped(runs, tmp_path):
    rude = {
        "data": HOSTILE,
        "notes": [HOSTILE],
        "protocol_text": [HOSTILE],
        "run": HOSTILE,
        "settings": {HOSTILE: f"{HOSTILE}\x00\u202e"},
    }
    found = page(tmp_path, *(run._replace(manifest={**run.manifest, **rude}) for run in runs))
    assert found.wrong == [] and "<script" not in found.html
    assert "\x00" not in found.html and "\u202e" not in found.html


def test_the_same_runs_give_the_same_bytes(runs, tmp_path):
    first = write_report(runs, tmp_path / "a.html", recommendations=LISTED).read_bytes()
    assert (
        write_report(runs, tmp_path / "b" / "c.html", recommendations=LISTED).read_bytes() == first
    )


def test_a_run_given_twice_counts_once(runs, tmp_path):
    once, twice = (
        write_report(runs, tmp_path / "a.html"),
        write_report([*runs, runs[0]], tmp_path / "b.html"),
    )
    assert once.read_bytes() == twice.read_bytes()


# ---- its numbers ---------------------------------------------------------------------------------


def test_it_contains_every_number_of_the_manifests(read, runs):
    for run in runs:
        for of in (run.manifest["metrics"], run.manifest["full_ranking"]):
            missing = [
                name for name, value in of.items() if f'<data value="{value!r}">' not in read.html
            ]
            assert missing == []
        assert (
            run.manifest["model_sha256"] in read.text and run.manifest["data_sha256"] in read.text
        )
        assert all(
            sentence in read.text
            for sentence in [*run.manifest["protocol_text"], *run.manifest["notes"]]
        )


def test_paired_tests_over_common_users(read, runs):
    a, b = (run.users["ndcg@10"] for run in runs)
    row = read.tables["Tests of ndcg@10"][1]
    found = difference(a, b)
    assert row[2] == str(len(a)) and row[3].startswith(f"{found.mean:+0.4f}".replace("-", "−"))
    assert row[4] == f"{found.t():.2f}".replace("-", "−")
    p = "< 0.001" if found.p() < 0.001 else f"{found.p():.3f}"
    assert row[5:] == [p, p]  # one comparison: Holm changes nothing


def test_fairness_stands_beside_chance(read, runs):
    for frame, key in (
        ("Fairness, sampled ranking", "fairness"),
        ("Fairness, full ranking", "fairness_full_ranking"),
    ):
        fpl, popular = (run.manifest[key] for run in runs)
        assert read.tables[frame][0] == ["run", *fpl]
        assert [row[1:] for row in read.tables[frame][1:]] == [
            [f"{v:.4f}" for v in of.values()] for of in (fpl, popular)
        ]


def test_the_learning_curve(read, runs):
    trace = runs[0].trace
    assert [line["round"] for line in trace] == [2, 4, 6]
    shown = next(rows for frame, rows in read.tables.items() if frame.endswith(", validation"))
    assert [row[1] for row in shown[1:]] == [
        f"{line['validation']['ndcg@10']:.4f}" for line in trace
    ]
    assert "Learning over bytes" in read.text and "popular : trained in one place" in read.text


def test_what_left_the_devices(read, runs):
    ledger = runs[0].manifest["ledger"]
    assert f'<data value="{ledger["bytes_up"] / ledger["device_rounds"]!r}">' in read.html
    assert all(" ".join(one.reveals.split()) in read.text for one in FPL.sends)
    assert "the server sees every history, " in read.text


def test_settings_say_where_they_come_from(read):
    rows = {row[0]: row for row in read.tables["Settings"]}
    assert rows["factors"][1] == "4given" and rows["learning_rate"][1].endswith("default")
    assert rows["pi"][2] == FPL.model_fields["pi"].description


def test_a_single_run_has_no_comparison(runs, tmp_path):
    found = page(tmp_path, runs[0])
    assert (
        found.wrong == []
        and "Significance" not in found.text
        and not [f for f in found.tables if f.startswith("Tests")]
    )
    assert len(found.row("Sampled ranking", "ndcg@10")) == 2


def test_an_algorithm_of_another_version(runs, tmp_path):
    found = page(
        tmp_path,
        runs[0]._replace(manifest={**runs[0].manifest, "algorithm": "gone", "entrenous": "0.0.1"}),
    )
    assert (
        found.wrong == []
        and "what this algorithm discloses is not known to this version" in found.text
    )
    (given,) = [
        rows for frame, rows in found.tables.items() if frame.startswith("Settings that were given")
    ]
    assert ["factors", "4"] in given and len(given) == 3


def test_the_findings_stand_at_the_top_in_words(read, runs, tmp_path):
    fpl, popular = (run.users["ndcg@10"] for run in runs)
    names = ["fpl factors=4, triples=10", "popular"]
    best, other = names if fpl.mean() > popular.mean() else names[::-1]
    top = read.text[: read.text.index("Results")]
    assert (
        f"{best} has the highest ndcg@10 in the sampled ranking,"
        f" {max(fpl.mean(), popular.mean()):.4f}" in top.replace(" ,", ",")
    )
    assert (
        f"Against {other} : +{abs(fpl.mean() - popular.mean()):.4f} (95 % interval, users alone, one seed"
        in top
    )
    sure = difference(fpl, popular).p() <= 0.05
    assert ("finds this more than chance" in top, "this could be chance" in top) == (sure, not sure)
    assert "popular : trained in one place, which sees every history." in top
    alone = page(tmp_path, runs[0]).text
    hits = runs[0].manifest["metrics"]["hr@10"]
    assert (
        f"{100 * hits:.0f} % of the users find a held-out item among the ten best of its own"
        " candidates" in alone
    )


def test_the_command_of_a_run_names_no_folder(runs, tmp_path):
    fpl = runs[0]
    assert (
        page(tmp_path, fpl).row("Commands", "fpl factors=4, triples=10")[1]
        == "made from rows in memory"
    )
    named = {
        "data_by_name": True,
        "data": "/home/me/my visits.csv",
        "notes": ["read /home/me/my visits.csv: user = u"],
    }
    found = page(
        tmp_path,
        fpl._replace(
            manifest={**fpl.manifest, **named, "load": {"item": "venue", "items": "/home/me/m.csv"}}
        ),
    )
    assert (
        found.row("Commands", "fpl factors=4, triples=10")[1]
        == "entrenous run fpl --data 'my visits.csv' --protocol loo-5 --seed 0 --rounds 6"
        " --every 2 "
        "--set factors=4 --set triples=10 --load item=venue --load items=m.csv"
    )
    assert "/home" not in found.html and "read my visits.csv: user = u" in found.text


def test_a_metric_under_two_names_has_one_row(read):
    """With one held-out item for each user, recall is hr, and map is mrr."""
    for frame in ("Sampled ranking", "Full ranking"):
        heads = [row[0] for row in read.tables[frame]]
        assert "hr@10also recall@10" in heads and "map@10also mrr@10" in heads
        assert not {"hr@10", "recall@10", "mrr@10"} & set(heads)
    per_user = [frame for frame in read.tables if frame.endswith(" per user")]
    assert "hr@10 per user" in per_user and "recall@10 per user" not in per_user
    assert "Tests of hr@10" in read.tables and "Tests of recall@10" not in read.tables


# ---- what cannot be compared ---------------------------------------------------------------------


def test_runs_of_different_seeds_are_not_tested(runs, tmp_path):
    other = stored(tmp_path, "popular", protocol="loo-5", seed=1)
    found = page(tmp_path, runs[0], other)
    assert (
        found.wrong == []
        and "Runs of different seeds are not tested against each other" in found.text
    )
    assert not [frame for frame in found.tables if frame.startswith("Tests")]


def test_runs_of_different_protocols_share_no_table(runs, tmp_path):
    other = stored(tmp_path, "popular", protocol="kfold-2")
    found = page(tmp_path, runs[1], other)
    assert found.wrong == [] and "their numbers cannot be compared" in found.text
    assert all(len(row) == 2 for row in found.tables["Lists"])
    assert "Results: small, loo-5" in found.text and "Results: small, kfold-2" in found.text


def test_folds_are_means_without_an_interval(tmp_path):
    found = page(tmp_path, stored(tmp_path, "popular", protocol="kfold-2"))
    assert "first of 2 folds" in found.text and "Every value is the mean over folds." in found.text
    assert " to " not in found.row("Full ranking", "ndcg@10")[1]
    assert "Sampled ranking" not in found.tables


# ---- what is refused -----------------------------------------------------------------------------


def test_an_unfinished_run_is_refused_and_nothing_is_written(runs, tmp_path):
    half = runs[0]._replace(manifest={**runs[0].manifest, "status": "running"})
    with pytest.raises(InputError, match=r"not finished.*--resume"):
        write_report([half], tmp_path / "x.html")
    with pytest.raises(InputError, match="no runs"):
        write_report([], tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file(runs, tmp_path):
    with pytest.raises(InputError, match="is a folder; expected a file"):
        write_report(runs, tmp_path)


def test_runs_of_different_code_share_no_table(runs, tmp_path):
    """One of another version of what trains, and one whose own algorithm was another: the latter is
    told apart by its label.
    """
    first = runs[1]
    trained = first._replace(
        path=tmp_path / "a", manifest={**first.manifest, "run": "a", "program_sha256": "0" * 64}
    )
    found = page(tmp_path, first, trained)
    assert (
        found.wrong == []
        and "They differ in data, protocol or code: their numbers cannot be compared" in found.text
    )
    own = first._replace(
        path=tmp_path / "b", manifest={**first.manifest, "algorithm_sha256": "0" * 64}
    )
    assert "code 000000" in page(tmp_path, first, own).text
