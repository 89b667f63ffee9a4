"""A headless browser, where there is one: the page as it is after loading, what it complained about, and a picture."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser() -> str | None:
    """The path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Browser:
    """Opens files. Whatever a page would fetch from the network fails: there is none."""

    def __init__(self, path: str, profile: Path) -> None:
        self._command = [
            path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}",
            "--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000", "--timeout=60000",
        ]  # fmt: skip

    def dom(self, page: Path) -> tuple[str, str]:
        """The document after loading, and what the browser logged."""
        done = self._run("--dump-dom", page)
        return done.stdout, done.stderr

    def picture(self, page: Path, target: Path) -> None:
        """A picture of the page."""
        self._run(f"--screenshot={target}", page, "--window-size=900,2400")

    def paper(self, page: Path, target: Path) -> None:
        """The page as it would be printed."""
        self._run(f"--print-to-pdf={target}", page)

    def _run(self, what: str, page: Path, *more: str) -> subprocess.CompletedProcess[str]:
        command = [*self._command, *more, what, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=150, check=True)
