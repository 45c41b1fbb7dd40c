"""The device in JavaScript in a web page of a real browser: it joins by a link, takes part as those
in Python do, also after the browser was killed, and two tabs are not two devices. A page whose
origin the operator does not allow gets nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from browser import BROWSERS, installed
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_pem_x509_certificate
from entrenous_network.links.https import HttpsServerLink
from entrenous_network.operate.enrolment import EnrolmentRequest
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.membership import invite
from federation_links import server_sha256, simulated, until
from javascript import (
    INSISTED,
    LOTS,
    PATIENCE,
    PLAIN,
    SCRIPTS,
    csv_of,
    founded_with,
    rows_of,
    served,
)

BROWSER = installed()
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"none of {', '.join(BROWSERS)} is there")

PAGE = b'<!doctype html><title>A device</title><script type="module" src="page_trial.mjs"></script>'


class PageServer(ThreadingHTTPServer):
    """A web server of one page, on loopback. The page is told of its invitation once there is
    one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.said: Queue[tuple[str, str]] = Queue()  # what the page has posted: where, and a text
        self.told: list[str] = []  # what it told meanwhile
        self.query = ""
        self.invitation = b""
        self.invited = threading.Event()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def posted(self, where: str) -> str:
        """The next text that the page posts there."""
        while True:
            found, text = self.said.get(timeout=PATIENCE)
            if found == where:
                return text
            # Before the server listens a connection is lost.
            assert found == "told", f"{found}: {text}"
            self.told.append(text)

    def tells(self, start: str) -> str:
        """The next text that the page tells, of those that begin so."""
        while True:
            text = self.posted("told")
            self.told.append(text)
            if text.startswith(start):
                return text


class Handler(BaseHTTPRequestHandler):
    """Answers the page."""

    server: PageServer

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        if name == "invitation":
            self.server.invited.wait(PATIENCE)
            self._answer(self.server.invitation, "application/json")
        elif name in {file.name for file in SCRIPTS.glob("*.mjs")}:
            self._answer((SCRIPTS / name).read_bytes(), "text/javascript")
        else:
            self._answer(PAGE, "text/html; charset=utf-8")

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        self._answer(b"", "text/plain")
        self.server.said.put((self.path.removeprefix("/"), text))

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *said: Any) -> None:
        pass


@pytest.fixture
def page() -> Iterator[PageServer]:
    server = PageServer()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.invited.set()
    server.shutdown()
    thread.join(PATIENCE)
    server.server_close()


@contextmanager
def opened(folder: Path, page: PageServer, key: str) -> Iterator[None]:
    """A browser that shows the page. key: the server's, whose certificate no public authority has
    signed, as the browser's option names it."""
    assert BROWSER is not None
    words = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-popup-blocking",
        "--disable-background-networking",
        "--disable-component-update",
        # Nothing beyond this machine is asked for.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={folder / 'browser'}",
        f"--ignore-certificate-errors-spki-list={key}",
        f"{page.origin}/{page.query}",
    ]
    with (folder / "browser.log").open("wb") as log:
        browser = subprocess.Popen(
            [BROWSER, *words], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        # Its helpers are of the session that it began.
        with suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        browser.wait(PATIENCE)


def key_of(made: FoundedFederation) -> str:
    """The hash of a server's public key, as browsers write it."""
    certificate = load_pem_x509_certificate((made.server / "keys" / "server.crt").read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(key).digest()).decode()


def invited(made: FoundedFederation, page: PageServer, terms: dict[str, Any]) -> FoundedFederation:
    """Makes the page's device a member, and tells the page."""
    asked = made.server.parent / "request.json"
    asked.write_text(page.posted("request"))
    (folder,) = invite(made.server.parent, [(EnrolmentRequest.read(asked), 1)])
    rows = rows_of(terms)
    files = {file.name: file.read_text() for file in folder.iterdir() if file.is_file()}
    csv = csv_of(rows, len(rows.users) - 1)
    told = {"invitation": files, "rows": csv, "insisted": INSISTED}
    page.invitation = json.dumps(told).encode()
    page.invited.set()
    return made


def test_a_page_takes_part_and_the_model_is_that_of_the_simulation(
    tmp_path: Path, page: PageServer
) -> None:
    terms = {**LOTS, "rounds": 6}
    made = founded_with(tmp_path, "fpl", terms)
    ended: list[dict[str, Any]] = []
    with opened(tmp_path, page, key_of(made)):
        invited(made, page, terms)

        def work(stop: threading.Event, link: HttpsServerLink) -> None:
            ended.append(json.loads(page.posted("ended")))

        digest = served(made, work, "browser", (page.origin,))
    rows = rows_of(terms)
    training = simulated(made, rows)
    assert digest == server_sha256(training)
    # Without the page's user the model is another: the page's numbers are in it.
    without = simulated(made, rows, cohorts=lambda number, users: users[:-1])
    assert digest != server_sha256(without)
    assert len(ended[0]["best"]) == 3
    assert (ended[0]["strict"], ended[0]["copied"]) == (["strict"], False)
    # Its lot drew it twice.
    assert ended[0]["inputs"] == 2


@pytest.mark.parametrize("at", ["made", "sent"])
def test_a_browser_that_is_killed_answers_the_same_bytes(
    tmp_path: Path, page: PageServer, at: str
) -> None:
    """With SIGKILL, when the answer is made and has not left, or when it has."""
    made = founded_with(tmp_path, "fpl", PLAIN)
    rows = rows_of(PLAIN)
    page.query = f"?{at}"

    def work(stop: threading.Event, link: HttpsServerLink) -> None:
        first = page.tells("answer 0 ")
        if at == "sent":
            page.tells("sent")
        browser.close()
        page.query = ""
        with opened(tmp_path, page, key_of(made)):
            again = page.tells("answer ")
            page.posted("ended")
        assert (again == first) == (at == "made")
        answers = [line.split() for line in page.told if line.startswith("answer ")]
        of_first = {digest for _, number, digest in answers if number == "0"}
        assert len(of_first) == 1

    with ExitStack() as browser:
        browser.enter_context(opened(tmp_path, page, key_of(made)))
        invited(made, page, PLAIN)
        digest = served(made, work, "browser", (page.origin,))
    assert digest == server_sha256(simulated(made, rows))


def test_two_tabs_are_not_two_devices(tmp_path: Path, page: PageServer) -> None:
    key = base64.b64encode(bytes(32)).decode()
    page.query = "?tabs"
    with opened(tmp_path, page, key):
        page.posted("request")
        assert "the device is open in another tab" in page.posted("failed")
    page.query = ""
    with opened(tmp_path, page, key):
        # Nobody has it open any more, and it is the same one.
        assert "there is a request already" in page.posted("failed")


@pytest.mark.parametrize("wrong", ["origin", "key"])
def test_a_page_gets_nothing_from_a_server_that_its_browser_may_not_ask(
    tmp_path: Path, page: PageServer, wrong: str
) -> None:
    """The operator allows another origin, or the browser does not trust the certificate: the
    device says so, and the server has never heard of it."""
    made = founded_with(tmp_path, "fcf", PLAIN)
    origin = "https://app.example" if wrong == "origin" else page.origin
    key = key_of(made) if wrong == "origin" else base64.b64encode(bytes(32)).decode()
    with opened(tmp_path, page, key):
        invited(made, page, PLAIN)

        def work(stop: threading.Event, link: HttpsServerLink) -> None:
            until(lambda: len(link.present()) == 3)
            # Twice: the device goes on asking.
            for _ in range(2):
                assert f"or was not started with --origin {page.origin}" in page.posted("told")
            assert "browser" not in link.present()
            stop.set()

        assert served(made, work, "browser", (origin,)) is None
