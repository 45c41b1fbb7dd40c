"""Fetching: pip's own download of a wheel, an archive over HTTP, and what happens when either is
not what it should be.
"""

from __future__ import annotations

import functools
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from entrenous.core.errors import InputError
from entrenous.data.dataset import Dataset
from entrenous.data.fetch import Archive, Unavailable, Wheel, fetch
from entrenous.data.folders import read_folder
from entrenous.data.home import data_home, write_atomic
from entrenous.data.options import LoadOptions

ROWS = b"user_id,item_id\n1,a\n1,b\n2,b\n2,c\n"
MEMBERS = {"interactions.csv": "set/data/rows.csv"}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a web server on this machine that serves tmp_path/site."""
    (tmp_path / "site").mkdir()
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path / "site"))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def packed(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
    return buffer.getvalue()


def wheel(folder: Path) -> str:
    """Writes a wheel that pip accepts and returns its SHA-256."""
    about = "entrenous_test_set-1.0.dist-info"
    raw = packed(
        {
            "set/data/rows.csv": ROWS,
            f"{about}/METADATA": b"Metadata-Version: 2.1\nName: entrenous-test-set\nVersion: 1.0\n",
            f"{about}/WHEEL": (
                b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            ),
            f"{about}/RECORD": b"",
        }
    )
    (folder / "entrenous_test_set-1.0-py3-none-any.whl").write_bytes(raw)
    return hashlib.sha256(raw).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip is told of by the user's own settings."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def silent(text: str) -> None:
    pass


def test_a_wheel_comes_by_pip_with_the_users_settings(index: Path, tmp_path: Path) -> None:
    source = Wheel("entrenous-test-set==1.0", wheel(index), MEMBERS)
    assert fetch("set", [source], tmp_path / "set", silent) is source
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["interactions.csv"]
    assert (tmp_path / "set" / "interactions.csv").read_bytes() == ROWS


def test_a_wheel_with_another_hash_is_refused(index: Path) -> None:
    wheel(index)
    with pytest.raises(Unavailable, match="sha256"):
        Wheel("entrenous-test-set==1.0", "0" * 64, MEMBERS).read()


def test_pips_reason_is_passed_on(index: Path) -> None:
    with pytest.raises(Unavailable, match=r"entrenous-test-set==2\.0"):
        Wheel("entrenous-test-set==2.0", "0" * 64, MEMBERS).read()


def test_an_environment_without_pip_goes_on_to_the_next_source(
    site: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv makes such environments; no process is started in vain."""
    raw = packed({"set/data/rows.csv": ROWS})
    (tmp_path / "site" / "set.zip").write_bytes(raw)
    there = Archive(f"{site}/set.zip", hashlib.sha256(raw).hexdigest(), MEMBERS)
    by_pip = Wheel("entrenous-test-set==1.0", wheel(index), MEMBERS)
    monkeypatch.setattr("entrenous.data.fetch.find_spec", lambda name: None)
    monkeypatch.setattr("subprocess.run", lambda *arguments, **named: pytest.fail("started"))
    assert fetch("set", [by_pip, there], tmp_path / "set", silent) is there
    with pytest.raises(InputError, match="pip is not installed in this environment"):
        fetch("set", [by_pip], tmp_path / "other", silent)


def test_an_archive_comes_over_http_and_from_a_file(site: str, tmp_path: Path) -> None:
    raw = packed({"set/data/rows.csv": ROWS})
    path = tmp_path / "site" / "set.zip"
    path.write_bytes(raw)
    for url in (f"{site}/set.zip", path.as_uri()):
        assert Archive(url, hashlib.sha256(raw).hexdigest(), MEMBERS).read() == {
            "interactions.csv": ROWS
        }


def test_the_second_source_is_used_where_the_first_fails(site: str, tmp_path: Path) -> None:
    raw = packed({"set/data/rows.csv": ROWS})
    (tmp_path / "site" / "set.zip").write_bytes(raw)
    gone = Archive(f"{site}/gone.zip", "0" * 64, MEMBERS)
    there = Archive(f"{site}/set.zip", hashlib.sha256(raw).hexdigest(), MEMBERS)
    said: list[str] = []
    assert fetch("set", [gone, there], tmp_path / "set", said.append) is there
    assert said == [f"fetching set from {gone.url}", f"fetching set from {there.url}"]


def test_every_reason_is_given_where_all_sources_fail_and_nothing_is_written(
    site: str, tmp_path: Path
) -> None:
    (tmp_path / "site" / "set.zip").write_bytes(b"not a zip file")
    bad = hashlib.sha256(b"not a zip file").hexdigest()
    sources = [
        Archive(f"{site}/gone.zip", "0" * 64, MEMBERS),
        Archive(f"{site}/set.zip", bad, MEMBERS),
    ]
    with pytest.raises(
        InputError,
        match=r"404.*not a zip file.*put interactions.csv into .*/set yourself; terms: none",
    ):
        fetch("set", sources, tmp_path / "set", silent, terms="none")
    assert not (tmp_path / "set").exists()


def test_a_data_set_is_fetched_once_and_then_offline(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path / "home"))
    one = Dataset(
        name="set",
        summary="a test",
        terms="none",
        citation="none",
        origin="here",
        folder="set",
        files=("interactions",),
        read=lambda folder: read_folder(folder, LoadOptions(), name="set"),
        sources=(Wheel("entrenous-test-set==1.0", wheel(index), MEMBERS),),
    )
    assert not one.present()
    assert len(one.load()) == 4
    for path in index.iterdir():
        path.unlink()
    assert one.fetch() is None
    assert len(one.load()) == 4


def test_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    assert data_home() == tmp_path
    monkeypatch.delenv("ENTRENOUS_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_home() == tmp_path / "entrenous"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert data_home() == Path("/home/somebody/.local/share/entrenous")


def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="no space left on device; set ENTRENOUS_DATA"):
        write_atomic(tmp_path / "set" / "file", b"1")
    assert list((tmp_path / "set").iterdir()) == []
