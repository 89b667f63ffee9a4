"""The store as one object: its tables are attributes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import NamedTuple

from tracejudge.scores import LIVE_RUN, JudgeId, TraceKey
from tracejudge.store import migrate
from tracejudge.store.alerting import AlertEvents, AlertSnapshots, Outbox, UserActions
from tracejudge.store.anchors import Anchors
from tracejudge.store.apps import App, seen_apps
from tracejudge.store.budget_leases import BudgetLeases
from tracejudge.store.calls import Calls
from tracejudge.store.cases import Cases
from tracejudge.store.connection import Connection, Row
from tracejudge.store.dead_letters import DeadLetters
from tracejudge.store.exporting import Exporter
from tracejudge.store.feedback import FeedbackTable
from tracejudge.store.finding import Finder
from tracejudge.store.forgetting import Forgetting
from tracejudge.store.growth import Growth, read_growth
from tracejudge.store.judged import Judged
from tracejudge.store.judges import Judges
from tracejudge.store.labels import Labels
from tracejudge.store.lag import live_lags
from tracejudge.store.leases import Leases
from tracejudge.store.ledger import Ledger
from tracejudge.store.minutes import Minutes
from tracejudge.store.overlap import PairSums, pair_sums
from tracejudge.store.parts import Parts
from tracejudge.store.retention import Retention, apply_retention
from tracejudge.store.rows import Known
from tracejudge.store.runs import Runs
from tracejudge.store.sampling_counts import SamplingCounts
from tracejudge.store.sampling_epochs import SamplingEpochs
from tracejudge.store.scores import Scores
from tracejudge.store.store_clock import StoreClock
from tracejudge.store.tombstones import Tombstones
from tracejudge.store.trace_index import TraceIndex
from tracejudge.store.traces import Traces
from tracejudge.store.traffic import Traffic
from tracejudge.store.values import from_microseconds
from tracejudge.store.verdict_cache import VerdictCache


class TableSize(NamedTuple):
    """Rows (duplicates not yet merged away included) and bytes on disk."""

    rows: int
    bytes: int


class Store:
    """Everything that is kept. Thread-safe; finds its server again, and takes over the embedded engine when its owner
    has gone. Close it, or use it as a context manager.

    Every insert may be repeated, in any split. Methods raise StoreUnavailable when nobody answers within the time to
    settle, and StoreError for what the store refuses.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._index = TraceIndex(connection)
        self.dead_letters = DeadLetters(connection)
        rejects = self.dead_letters.reject
        self.judges = Judges(connection, rejects)
        self.minutes = Minutes(connection, self.judges)
        self.traces = Traces(connection, rejects, self._index)
        self.scores = Scores(connection, rejects, self.judges, self.minutes)
        self.ledger = Ledger(connection, rejects, self.judges)
        self.labels = Labels(connection, rejects)
        self.feedback = FeedbackTable(connection, rejects)
        self.parts = Parts(connection, rejects)
        self.calls = Calls(connection, rejects)
        self.runs = Runs(connection, rejects)
        self.alert_events = AlertEvents(connection, rejects)
        self.alert_snapshots = AlertSnapshots(connection, rejects)
        self.outbox = Outbox(connection, rejects)
        self.user_actions = UserActions(connection, rejects)
        self.anchors = Anchors(connection, rejects)
        self.sampling_epochs = SamplingEpochs(connection, rejects)
        self.sampling_counts = SamplingCounts(connection)
        self.verdict_cache = VerdictCache(connection)
        self.leases = Leases(connection)
        self.cases = Cases(connection, self.scores)
        self.judged = Judged(connection)
        self.finder = Finder(connection, self.traces)
        self.traffic = Traffic(connection)
        self.exporter = Exporter(connection)
        self.tombstones = Tombstones(connection, rejects)
        self.forgetting = Forgetting(connection, tombstones=self.tombstones, ledger=self.ledger, minutes=self.minutes)
        self.budget_leases = BudgetLeases(connection, self.calls)

    def lookup(self, keys: Sequence[TraceKey], *, run_id: str = LIVE_RUN) -> dict[TraceKey, Known]:
        """What is known of these traces, before anything else is done for them; unknown ones are absent.

        Two statements, whatever the number of keys.
        """
        return self.scores.lookup(self._index.find(keys), run_id)

    def migrate(self, retention: Retention | None = None) -> list[str]:
        """Brings the schema up to date, and the times that data is kept to `retention` where one is given.

        Safe to repeat, and in several processes at once. Returns what was applied or changed.
        """
        applied = migrate.migrate(self._connection)
        return applied if retention is None else [*applied, *apply_retention(self._connection, retention)]

    def ddl(self) -> str:
        """The statements behind `migrate`, to be read or run by hand."""
        return migrate.ddl(self._connection.target.database)

    def pair_sums(
        self,
        *,
        old: JudgeId,
        new: JudgeId,
        environment: str,
        app: str,
        group: Mapping[str, str],
        before: datetime,
        unfair: Collection[str] = (),
    ) -> PairSums:
        """What two judges said of the same traces of a slice (`store.overlap`), without the runs `unfair`."""
        return pair_sums(
            self._connection,
            old=old,
            new=new,
            environment=environment,
            app=app,
            group=group,
            before=before,
            unfair=unfair,
        )

    def live_lags(self) -> bool:
        """True while live traffic is being judged and cannot keep up: background work should wait."""
        return live_lags(self._connection, self.ledger)

    def check_schema(self) -> None:
        """Raises SchemaTooNew, or StoreUnusable when the schema is older than this release."""
        migrate.check_schema(self._connection)

    def now(self) -> datetime:
        """The store's clock."""
        return from_microseconds(self._connection.query("SELECT now64(6)")[0][0])

    @cached_property
    def clock(self) -> StoreClock:
        """The store's time without a statement for each look; asked when it is first used."""
        return StoreClock(self.now)

    def version(self) -> str:
        """The engine's version."""
        return str(self._connection.query("SELECT version()")[0][0])

    def missing_grants(self) -> list[str]:
        """Rights on the tables that this user lacks: SELECT and INSERT for the consumer. Reads, changes nothing."""
        database = self._connection.target.database.replace("`", "")
        asked = ("SELECT", "INSERT")
        return [
            right for right in asked if int(self._connection.query(f"CHECK GRANT {right} ON `{database}`.*")[0][0]) != 1
        ]

    def sizes(self) -> Mapping[str, TableSize]:
        """Rows and bytes on disk of each table."""
        rows = self._connection.query(
            "SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts "
            "WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table"
        )
        return {row[0]: TableSize(int(row[1]), int(row[2])) for row in rows}

    def apps(self) -> list[App]:
        """Every app and its environment of which anything is stored, in order."""
        return seen_apps(self._connection)

    def growth(self, *, days: int = 7) -> Growth:
        """Sizes of all tables and how many rows the last days brought."""
        return read_growth(self._connection, days=days)

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[Row]:
        """Rows of any SELECT, for tools and tests; values are bound as `{name:Type}`, instants come as integers."""
        return self._connection.query(sql, parameters)

    def command(self, sql: str, parameters: Mapping[str, object] | None = None) -> None:
        """Runs any repeatable statement that gives no rows, for tools and tests."""
        self._connection.command(sql, parameters)

    def optimize(self, table: str) -> None:
        """Merges a table's parts now. For tests and after large deletions; readers give the same answers before."""
        self._connection.command(f"OPTIMIZE TABLE `{table}` FINAL")

    def close(self) -> None:
        """Ends the connection. Where this process owned the embedded engine, another one may take over now."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
