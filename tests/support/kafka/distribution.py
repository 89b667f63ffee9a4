"""Apache Kafka's jars, fetched once by Maven into a cache folder that all processes share."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
OLDEST_JAVA = 17  # brokers of 4.x do not start below it
_MAVEN_TIMEOUT_S = 300.0
_MARKER = "complete"


class KafkaUnavailableError(Exception):
    """This machine cannot run a broker; the message is one line that says what is missing."""


def kafka_version() -> str:
    """The version the pom asks for: the only place that names it."""
    found = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text(encoding="utf-8"))
    assert found is not None, f"{POM.name} names no kafka.version"
    return found.group(1)


def cache_root() -> Path:
    """`TRACEJUDGE_CACHE`, or the user's cache folder for tracejudge."""
    if own := os.environ.get("TRACEJUDGE_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tracejudge"


def find_java() -> Path:
    """The `java` of JAVA_HOME or PATH, at least version 17; raises KafkaUnavailableError."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME={home!r}" if home else "on PATH"
        raise KafkaUnavailableError(f"no java {where}: a Kafka broker needs Java {OLDEST_JAVA} or newer")
    try:
        asked = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise KafkaUnavailableError(f"{found!r} did not answer -version: {fault}") from fault
    version = re.search(r'version "(\d+)', asked.stderr + asked.stdout)
    if version is None or int(version.group(1)) < OLDEST_JAVA:
        seen = version.group(1) if version else "an unknown version"
        raise KafkaUnavailableError(f"{found!r} is Java {seen}: a Kafka broker needs {OLDEST_JAVA} or newer")
    return Path(found)


def jars() -> Path:
    """The folder with every jar of the broker; runs Maven the first time, raises KafkaUnavailableError."""
    root = cache_root()
    folder = root / f"kafka-{kafka_version()}"
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    if _is_complete(folder, wanted):
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f"{folder.name}.lock"):
        # Another process may have fetched while this one waited for the lock.
        if not _is_complete(folder, wanted):
            _fetch(folder, wanted)
    return folder


def _is_complete(folder: Path, wanted: str) -> bool:
    try:
        return (folder / _MARKER).read_text(encoding="ascii").strip() == wanted
    except FileNotFoundError:
        return False


def _fetch(folder: Path, wanted: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError("no mvn on PATH: Maven fetches the Kafka broker for the tests")
    # Beside its final place, so that the rename is atomic: a killed fetch leaves no half-filled folder.
    fresh = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={fresh}")
        try:
            done = subprocess.run(
                [maven, "-q", "-B", "-f", str(POM), *goal],
                capture_output=True,
                text=True,
                timeout=_MAVEN_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as fault:
            raise KafkaUnavailableError(f"mvn did not finish within {_MAVEN_TIMEOUT_S:.0f} s") from fault
        if done.returncode != 0:
            said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            raise KafkaUnavailableError(f"mvn could not fetch Kafka: {said[0] if said else done.returncode}")
        (fresh / _MARKER).write_text(wanted, encoding="ascii")
        fresh.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield  # closing the file releases the lock, also when the process dies
