"""A report in a real browser, where one is installed: its width, and pictures of it.

    python tests/helpers/browser.py runs/NAME/report.html docs

writes the pictures of a report that the documentation shows: report.png (1280 wide) and
report-phone.png (390 wide).
"""

import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PHONE, DESKTOP = 390, 1280
# Opens all that is folded, and tells what is wider than the window: the page, or what is in it but
# not in a frame that scrolls.
MEASURE = """<script>
document.querySelectorAll("details").forEach(each => each.open = true);
const wide = [...document.querySelectorAll("body *")].filter(each =>
  !each.closest(".scroll") && !each.closest("svg")
  && each.getBoundingClientRect().right > window.innerWidth + 0.5);
const names = wide.map(each => each.tagName + "." + each.className).join(" ");
parent.document.title = window.innerWidth + "|" + document.documentElement.scrollWidth + "|" + names;
</script>"""


def installed() -> str | None:
    """The path of a browser that takes screenshots; None without one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def run_browser(profile: Path, page: Path, *options: str) -> str:
    """Runs the browser on a page until it has done what the options say. Returns its output."""
    command = [
        str(installed()),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-extensions",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
        *options,
        page.resolve().as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def measured(page: Path, folder: Path, width: int) -> tuple[int, int, str]:
    """The width of the window, that of the page, and what is wider than the window."""
    html = page.read_text(encoding="utf-8")
    # The page allows no script; this copy does.
    copy = folder / f"measured-{width}.html"
    # A window has at least 500 pixels; a frame in it may have fewer.
    unlocked = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    assert unlocked != html
    content = escape(unlocked.replace("</body>", f"{MEASURE}</body>"))
    frame = f'<iframe style="border:0" width="{width}" height="900" srcdoc="{content}"></iframe>'
    copy.write_text(f"<!DOCTYPE html><title></title>{frame}", encoding="utf-8")
    dumped = run_browser(folder / "profile", copy, "--window-size=1400,1000", "--dump-dom")
    inner, page_width, names = re.search(r"<title>(.*?)</title>", dumped)[1].split("|")
    return int(inner), int(page_width), names


def picture(page: Path, out: Path, width: int, height: int, profile: Path) -> None:
    """Writes a picture of the top of a page."""
    size = f"--window-size={width},{height}"
    run_browser(profile, page, size, f"--screenshot={out}")


if __name__ == "__main__":
    import tempfile

    shown, docs = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as temporary:
        picture(shown, docs / "report.png", DESKTOP, 1500, Path(temporary) / "a")
        picture(shown, docs / "report-phone.png", PHONE, 1900, Path(temporary) / "b")
