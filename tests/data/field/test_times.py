"""Times as people have them: fractions, zones, twelve hours, days by their digits, two columns, and
those that cannot be. Numbers in brackets are those of ../shared/cases.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from entrenous.core.errors import InputError
from entrenous.data.interactions import NO_TIME, SECOND, Interactions
from entrenous.data.load import from_frame, load
from entrenous.data.split.export import write
from entrenous.data.split.protocol import splits
from entrenous.data.split.read import read


def rows_at(times: Any, **options: Any) -> Interactions:
    """Rows of one user, n0, n1, ..., one at each time, and one row of another user at the first."""
    values = list(times)
    return from_frame(
        pl.DataFrame(
            {
                "user_id": ["u"] * len(values) + ["v"],
                "item_id": [f"n{n}" for n in range(len(values))] + ["other"],
                "time": pl.Series([*values, values[0]], dtype=getattr(times, "dtype", None)),
            }
        ),
        **options,
    )


def read_as(times: Any, **options: Any) -> list[str]:
    """The times of `rows_at` in ISO 8601, the fraction only where there is one."""
    data = rows_at(times, **options)
    assert data.time is not None
    stamps = data.time[data.ptr[0] : data.ptr[1]]
    texts = []
    for stamp in stamps.tolist():
        seconds, micros = divmod(stamp, SECOND)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros, tzinfo=None)
        texts.append("" if stamp == NO_TIME else moment.isoformat())
    return texts


def noted(data: Interactions, *parts: str) -> bool:
    """True if a note has all parts."""
    return any(all(part in note for part in parts) for note in data.notes)


# ---- order follows the full precision [01] -------------------------------------------------------

NEW_IS_LAST = {
    "milliseconds": ["1593878900000", "1593878903900", "1593878903100"],
    "microseconds": ["1593878900000000", "1593878903100002", "1593878903100001"],
    "nanoseconds": ["1593878900000000000", "1593878903100002000", "1593878903100001000"],
    "a fraction": ["1593878900.000", "1593878903.900", "1593878903.1"],
    "ISO": ["2020-07-04T16:08:20.000Z", "2020-07-04T16:08:23.9Z", "2020-07-04T16:08:23.100Z"],
    "a zone": ["2020-07-04 18:08:20+02:00", "2020-07-04T16:08:23.2Z", "2020-07-04 18:08:23+0200"],
    "a comma": ["2020-07-04 16:08:20,000", "2020-07-04 16:08:23,900", "2020-07-04 16:08:23,100"],
    "a mix": ["1593878900", "1593878903900", "2020-07-04T16:08:23.8"],
}


@pytest.mark.parametrize("form", NEW_IS_LAST)
def test_the_latest_row_is_the_latest_by_fractions_of_a_second(form: str, tmp_path: Path) -> None:
    lines = [f'u,{item},"{at}"' for item, at in zip("xno", NEW_IS_LAST[form], strict=True)]
    others = [f'{user},{item},"{NEW_IS_LAST[form][0]}"' for user in "vw" for item in "xy"]
    (tmp_path / "log.csv").write_text("\n".join(["user_id,item_id,timestamp", *lines, *others]))
    data = load(tmp_path / "log.csv")
    [split] = splits("loo-full", data)
    first = split.test.rows.item[: split.test.rows.ptr[1]]
    assert [data.items[int(item)] for item in first] == ["n"]


def test_every_microsecond_of_every_form_is_kept() -> None:
    micros = np.random.default_rng(0).integers(10**14, 4_102_444_800 * SECOND, 2_000)
    stamps = pl.Series(micros).cast(pl.Datetime("us"))
    whole, rest = pl.Series(micros // SECOND), pl.Series(micros % SECOND).cast(pl.String)
    forms = [
        whole.cast(pl.String) + "." + rest.str.zfill(6),
        pl.Series(micros / SECOND),
        pl.Series(micros / 1_000),
        pl.Series(micros),
        stamps,
        stamps.dt.cast_time_unit("ns"),
        stamps.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"),
        stamps.dt.strftime("%d.%m.%Y %H:%M:%S%.6f"),
    ]
    for form in forms:
        data = rows_at(form, time_form="day-first")
        assert data.time is not None and data.row is not None
        in_order = data.time[np.argsort(data.row)]
        assert np.array_equal(in_order[:-1], micros), form[0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "m"])
def test_stamps_of_numpy_have_any_unit(unit: str) -> None:
    stamps = np.array(["2019-01-01T13:45", "2019-01-02", "2019-01-02"], f"datetime64[{unit}]")
    data = from_frame({"user_id": [1, 1, 2], "item_id": [1, 2, 3], "time": stamps})
    assert data.time is not None and data.time[0] == 1546350300 * SECOND


def test_the_resolution_is_said() -> None:
    assert noted(rows_at(["1593878903.9", "1593878903.25"]), "kept to the millisecond")
    assert noted(rows_at(["1593878903.900001", "1593878903"]), "kept to the microsecond")
    assert noted(rows_at(["2020-07-04", "2020-07-05"]), "times are whole days")
    assert noted(rows_at([1593878903000000001, 1593878903000000002]), "cut to microseconds: 3 of 3")
    assert noted(rows_at(["1.5938E+09", "1.5939E+09"]), "with a power of ten", "lacks digits: 3")
    assert noted(rows_at(pl.Series([1.5e9, 1.6e9], dtype=pl.Float32)), "32-bit floats")
    assert not noted(rows_at(["1593878903", "1593878904"]), "times")


# ---- forms [22, 23] ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "moments"),
    [
        (
            ["2020-01-01T10:00:00", "2020-01-01T10:00:01.5", "2020-01-01"],
            ["2020-01-01T10:00:00", "2020-01-01T10:00:01.500000", "2020-01-01T00:00:00"],
        ),
        (
            ["2020-01-01T10:00:01.5", "2020/1/1 9:05", "20200101T10:00:00Z"],
            ["2020-01-01T10:00:01.500000", "2020-01-01T09:05:00", "2020-01-01T10:00:00"],
        ),
        (
            ["2020-01-01 10:00:00 UTC", "2020-01-01 10:00:00 +0230", "2020-01-01 10:00:00-08"],
            ["2020-01-01T10:00:00", "2020-01-01T07:30:00", "2020-01-01T18:00:00"],
        ),
        (
            ["Tue Apr 03 18:00:09 +0000 2012", "Fri Nov 15 08:55:22 -0700 2019"],
            ["2012-04-03T18:00:09", "2019-11-15T15:55:22"],
        ),
    ],
)
def test_dates_in_their_forms_whichever_row_is_first(texts: list[str], moments: list[str]) -> None:
    assert read_as(texts) == moments
    assert read_as(texts[::-1]) == moments[::-1]


def test_a_zone_and_a_day_alone_are_said_where_others_differ() -> None:
    mixed = rows_at(["2020-01-01T10:00:00Z", "2020-01-01T10:00:00", "2020-01-01"])
    assert noted(mixed, "2 with their offset from UTC, 2 without, read as UTC")
    assert noted(mixed, "without a time of day, read as midnight: 1 of 4")
    with pytest.raises(
        InputError, match=r"row 1: .* no offset from UTC, which others of the column"
    ):
        rows_at(["2020-01-01T10:00:00+01:00", "2020-01-01T10:00:00"])
    both = rows_at(["1593878903", "2020-01-01T10:00:00"])
    assert noted(both, "a mix of dates, 1, and of numbers, 2")
    small = rows_at([0, 5, 1593878903])
    assert noted(small, "numbers below 100,000,000 are seconds", "3 of 4", "time_form=seconds")
    with pytest.raises(InputError, match="strict, and guessed: numbers below"):
        rows_at([0, 5, 1593878903], strict=True)
    assert rows_at([0, 5, 1593878903], strict=True, time_form="seconds").time is not None


@pytest.mark.parametrize(
    ("time", "form", "meant"),
    [
        ("11/12/2019 12:05:58 AM", "month-first", "2019-11-12T00:05:58"),
        ("11/12/2019 12:05 PM", "month-first", "2019-11-12T12:05:00"),
        ("11.12.2019", "day-first", "2019-12-11T00:00:00"),
        ("3/1/97 0:00:00", "month-first", "1997-03-01T00:00:00"),
        ("13.01.19", "day-first", "2019-01-13T00:00:00"),
        ("20191112", "yyyymmdd", "2019-11-12T00:00:00"),
        (20191112, "seconds", "1970-08-22T16:38:32"),
        ("201911121530", "milliseconds", "1976-05-25T22:25:21.530000"),
        ("201911121530", "yyyymmdd", "2019-11-12T15:30:00"),
        ("20191112153059", "yyyymmdd", "2019-11-12T15:30:59"),
    ],
)
def test_what_can_be_read_two_ways_is_asked(time: Any, form: str, meant: str) -> None:
    with pytest.raises(InputError) as refused:
        rows_at([time, time])
    said = str(refused.value)
    assert f"'{form}'" in said and "--load time_form=" in said
    # The remedy leads out.
    assert read_as([time, time], time_form=form)[0] == meant


# ---- days beside times of day [23] ----------------------------------------------------------------

BOTH = {"user_id": ["u", "u", "v"], "item_id": ["a", "b", "c"]}


def test_times_of_day_alone_are_refused_and_both_remedies_lead_out() -> None:
    columns = BOTH | {"date": ["2019-01-01"] * 3, "time": ["13:45", "08:00", "09:00"]}
    with pytest.raises(InputError, match=r"times of day without a day.*time='date' .*time=''"):
        from_frame(columns)
    assert from_frame(columns, time="").time is None
    days = from_frame(columns, time="date").time
    assert days is not None and set(days.tolist()) == {1546300800 * SECOND}


# ---- times that cannot be used [11] --------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("-62135596800000", "is before 1970"),
        ("1969-12-31 23:59:59", "is before 1970"),
        ("9999-12-31", "is after the year 2100"),
        ("253402300799", "is after the year 2100"),
        ("253402300799000", "is after the year 2100"),
        ("1e300", "is after the year 2100"),
        ("inf", "is after the year 2100"),
        ("nan", "cannot be read"),
        ("yesterday", "cannot be read; expected seconds or smaller units since 1970, or a date"),
        ("2019-02-30", "cannot be read"),
        ("2019-01-01 25:00", "cannot be read"),
        ("2019-01-01 13:00 PM", "cannot be read"),
        ("2019-01-01 10:00+99:00", "cannot be read"),
        ("２０１９-01-01", "cannot be read"),
        ("x" * 60_000, "cannot be read"),
    ],
)
def test_a_bad_time_is_refused_or_missing(bad: str, said: str, tmp_path: Path) -> None:
    lines = ["user_id,item_id,timestamp", "u,a,1500000000", f"u,b,{bad}", "v,d,", f"v,c,{bad}"]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as refused:
        load(tmp_path / "log.csv")
    # The first one is named, with the remedy.
    assert str(refused.value).count("log.csv:3: the time") == 1 and said in str(refused.value)
    assert "bad_times='missing' (--load bad_times=missing)" in str(refused.value)
    assert len(str(refused.value)) < 650
    data = load(tmp_path / "log.csv", bad_times="missing")
    assert data.time is not None
    assert data.time.tolist() == [1_500_000_000 * SECOND, NO_TIME, NO_TIME, NO_TIME]
    assert noted(data, "taken as missing: 2 of 4, the first", "log.csv:3")
    dropped = load(tmp_path / "log.csv", bad_rows="drop", bad_share=0.5)
    assert len(dropped) == 2 and noted(dropped, "rows left out, the time", ": 2, the first at")
    assert noted(data, "rows without a time: 3 of 4")


@pytest.mark.parametrize("bad", ["", "soon", "-1"])
def test_data_in_which_no_row_has_a_time_has_none(bad: str) -> None:
    data = rows_at([bad, bad], bad_times="missing")
    assert data.time is None and noted(data, "no row has a time")
    with pytest.raises(InputError, match="the data has no times"):
        splits("loo-full", data)


def test_a_file_that_was_cut_off_is_not_taken_for_a_missing_time(tmp_path: Path) -> None:
    lines = "user_id,item_id,timestamp\nu,a,1500000000\nu,b,1500000001\nv,a,2017-0"
    (tmp_path / "log.csv").write_text(lines)
    with pytest.raises(InputError, match=r"log.csv:4: the time '2017-0' cannot be read.*cut off"):
        load(tmp_path / "log.csv")
    with pytest.raises(InputError, match=r"log.csv:4: the last line has no line end"):
        load(tmp_path / "log.csv", bad_times="missing")


# ---- kept as they are ----------------------------------------------------------------------------


@pytest.fixture
def fractions() -> Interactions:
    rng = np.random.default_rng(1)
    user, item = np.divmod(np.arange(60), 10)
    at = 1_500_000_000 * SECOND + rng.integers(0, 10**9, 60)
    return from_frame(
        {"user_id": user, "item_id": (item + user) % 14, "timestamp": at}, name="fractions"
    )


@pytest.mark.parametrize("whole", [True, False])
def test_an_exported_split_keeps_every_microsecond(
    whole: bool, fractions: Interactions, tmp_path: Path
) -> None:
    assert fractions.time is not None
    time = fractions.time
    if whole:
        time = time // SECOND * SECOND
    data = replace(fractions, time=np.where(np.arange(60) % 10 == 3, NO_TIME, time))
    [split] = splits("random-80-20", data)
    folder = write(split, tmp_path / "split")
    back = read(folder)
    for one, other in ((split.train, back.train), (split.test.rows, back.test.rows)):
        assert np.array_equal(one.time, other.time)
    # Whole seconds stand there as in earlier versions.
    column = pl.read_csv(folder / "train.csv")["time"]
    assert column.dtype == (pl.Int64 if whole else pl.Float64)
    assert column.null_count() == int((split.train.time == NO_TIME).sum())


def test_the_hash_of_whole_seconds_is_that_of_earlier_versions(fractions: Interactions) -> None:
    """The hash was measured with the program that had seconds."""
    data = from_frame(
        {"user_id": ["a", "a", "b"], "item_id": ["x", "y", "z"], "timestamp": [1, 2, 1500000000]}
    )
    assert data.sha256() == "bf69d6e12dce92bdfdcc8d92b00e43c894e394173be7089b87a61888f479a9af"
    assert fractions.time is not None
    other = replace(fractions, time=fractions.time + 1)
    cut = replace(fractions, time=fractions.time // SECOND * SECOND)
    assert len({each.sha256() for each in (fractions, other, cut)}) == 3
