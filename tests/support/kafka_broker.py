"""A real Apache Kafka broker for tests: one KRaft node on loopback that can be killed and restarted."""

from __future__ import annotations

import base64
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from tests.support.kafka.distribution import KafkaUnavailableError, find_java, jars
from tests.support.kafka.process import GuardedProcess

EXISTING_BROKER = "TRACEJUDGE_TEST_KAFKA"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_LOG_LINES = 25

# After kill -9 the broker's own controller refuses its return until the old session has run out: by default that
# is 9 s, which every test that kills would wait.
_PROPERTIES = """\
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""

_JAVA_OPTIONS = (
    "-Xms128m",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    # Each start prints every setting several times: the useful lines would not be among the last ones.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log.LogConfig=warn",
)


class BrokerStartError(Exception):
    """The broker did not come up; the message ends with its last log lines."""


class BrokerNotOwnedError(Exception):
    """The broker was started by somebody else, who alone may stop or start it."""


class KafkaBroker:
    """One broker with its own data folder; the port stays the same over every restart.

    Not thread-safe. `with KafkaBroker() as broker:` starts it and removes it with its data.
    """

    owned = True
    """Whether this object may stop, kill and restart the broker."""

    def __init__(self) -> None:
        """Choose what runs it; raises KafkaUnavailableError without Java or the jars."""
        self._java = find_java()
        self._jars = jars()
        # Also removed at interpreter exit; without errors, because a broker may still be writing then.
        self._folder = tempfile.TemporaryDirectory(prefix="tracejudge-kafka-", ignore_cleanup_errors=True)
        self._home = Path(self._folder.name)
        self._process: GuardedProcess | None = None
        self._formatted = False
        self._port = 0

    @property
    def bootstrap(self) -> str:
        """`host:port` for the clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.exit_status is None

    def start(self, *, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Start it, unless it runs, and wait until a client got an answer; raises BrokerStartError."""
        if self.running:
            return
        if self._formatted:
            self._launch(timeout_s)
            return
        # A port found free can be taken before the broker binds it; only a first start may choose another.
        for attempts_left in (2, 1, 0):
            self._format()
            try:
                self._launch(timeout_s)
            except BrokerStartError as fault:
                if attempts_left and "Address already in use" in str(fault):
                    continue
                raise
            self._formatted = True
            return

    def stop(self) -> None:
        """Shut it down in order (SIGTERM)."""
        if self._process is not None:
            self._process.stop(_STOP_TIMEOUT_S)

    def kill(self) -> None:
        """kill -9: nothing is flushed, closed or said to the clients."""
        if self._process is not None:
            self._process.kill()

    def restart(self, *, kill: bool = False) -> None:
        """Stop it (or kill -9), then start it on the same port and data."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers until `resume`."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        if self._process is not None:
            self._process.resume()

    def close(self) -> None:
        """Kill it and delete its data."""
        self.kill()
        self._folder.cleanup()

    def __enter__(self) -> KafkaBroker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and wait until each partition has a leader; returns its name."""
        with KafkaAdminClient(bootstrap_servers=self.bootstrap) as admin:
            topic = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config or {})}
            admin.create_topics({name: topic}, wait_for_metadata=True)
        return name

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        """The last lines the broker wrote."""
        try:
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"

    @property
    def _log(self) -> Path:
        return self._home / "broker.log"

    @property
    def _settings(self) -> Path:
        return self._home / "server.properties"

    def _java_command(self, *arguments: str) -> list[str]:
        return [str(self._java), *_JAVA_OPTIONS, "-cp", f"{self._jars}/*", *arguments]

    def _format(self) -> None:
        data = self._home / "data"
        shutil.rmtree(data, ignore_errors=True)
        self._log.unlink(missing_ok=True)
        self._port, controller_port = free_ports()
        properties = _PROPERTIES.format(port=self._port, controller_port=controller_port, data=data)
        more = self._more_properties(controller_port=controller_port)
        self._settings.write_text(properties + more, encoding="utf-8")
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if cluster_id.startswith("-"):
            cluster_id = "A" + cluster_id[1:]  # the tool would read it as an option
        options = ("--standalone", "-t", cluster_id, "-c", str(self._settings))
        command = self._java_command("kafka.tools.StorageTool", "format", *options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_TIMEOUT_S, check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-3000:]
            raise BrokerStartError(f"the storage could not be formatted:\n{said}")

    def _more_properties(self, *, controller_port: int) -> str:
        """Lines added to the settings; of a repeated name the last one counts."""
        return ""

    def _launch(self, timeout_s: float) -> None:
        process = GuardedProcess(self._java_command("kafka.Kafka", str(self._settings)), self._log)
        self._process = process
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            status = process.exit_status
            if status is None and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            process.kill()
            what = f"ended with status {status}" if status is not None else f"is silent after {timeout_s:g} s"
            raise BrokerStartError(f"the broker {what}; its last log lines:\n{self.log_tail()}")

    def _answers(self) -> bool:
        """Whether a client sees a live broker; the port opens earlier, while the broker is still fenced."""
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=0.5).close()
        except OSError:
            return False
        return answers(self.bootstrap, timeout_s=5.0)


class ExistingBroker(KafkaBroker):
    """A broker somebody else runs: topics can be made, but it is not ours to stop."""

    owned = False

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def running(self) -> bool:
        return True

    def start(self, *, timeout_s: float = _START_TIMEOUT_S) -> None:
        self._refuse("start")

    def stop(self) -> None:
        self._refuse("stop")

    def kill(self) -> None:
        self._refuse("kill")

    def pause(self) -> None:
        self._refuse("pause")

    def resume(self) -> None:
        self._refuse("resume")

    def close(self) -> None:
        """Nothing to do: the broker and its topics stay."""

    def __enter__(self) -> KafkaBroker:
        return self

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        return "(the log of an existing broker is not ours to read)"

    def _refuse(self, verb: str) -> None:
        raise BrokerNotOwnedError(
            f"cannot {verb} {self.bootstrap}: it is an existing broker; unset {EXISTING_BROKER} to have one started"
        )


def answers(bootstrap: str, *, timeout_s: float) -> bool:
    """Whether a broker at `host:port` answers a client within the time."""
    wait_ms = int(timeout_s * 1000)
    try:
        with KafkaAdminClient(bootstrap_servers=bootstrap, bootstrap_timeout_ms=wait_ms) as admin:
            return bool(admin.describe_cluster()["brokers"])
    except KafkaError:
        return False


def broker_or_reason() -> KafkaBroker | str:
    """A running broker, or one line that says what is missing; a broker that fails to start raises."""
    if existing := os.environ.get(EXISTING_BROKER):
        if answers(existing, timeout_s=10.0):
            return ExistingBroker(existing)
        return f"{EXISTING_BROKER}={existing!r}: no Kafka broker answered there within 10 s"
    try:
        broker = KafkaBroker()
    except KafkaUnavailableError as missing:
        return str(missing)
    return broker.__enter__()


def free_ports() -> tuple[int, int]:
    """Two free ports of loopback, below the range the kernel hands out to clients.

    Within that range, a client that retries while the broker is down can be given the broker's own port: it
    then connects to itself, or the broker cannot bind when it comes back.
    """
    free: list[int] = []
    for port in random.SystemRandom().sample(range(15_000, 32_000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == 2:
            return free[0], free[1]
    raise BrokerStartError("no free port on loopback between 15000 and 32000")
