"""What the alert loop keeps: its events, its snapshots, what people did about them, and notifications to deliver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from tracejudge.alerts.event import AlertEvent, SeriesKey
from tracejudge.store.alert_rows import AlertSnapshot, OutboxItem, OutboxStanding, UserAction
from tracejudge.store.connection import Row
from tracejudge.store.rows import Cursor, Inserted
from tracejudge.store.table import Columns, Table, Where
from tracejudge.store.values import (
    bound_instant,
    flag,
    from_json,
    from_microseconds,
    microseconds,
    optional_text,
    text,
    to_json,
    whole,
)

_INSTANT: Final = "DateTime64(6, 'UTC')"


class AlertEvents(Table[AlertEvent]):
    """Keyed by event id: the same change told twice is one event."""

    name = "alert_events"
    columns = Columns(
        event_id="String",
        at=_INSTANT,
        rule="LowCardinality(String)",
        environment="LowCardinality(String)",
        app="LowCardinality(String)",
        judge_name="LowCardinality(String)",
        judge_id="LowCardinality(String)",
        slice="Array(Tuple(String, String))",
        kind="LowCardinality(String)",
        severity="LowCardinality(String)",
        heuristic="Bool",
        summary="String",
        evidence="String",
    )

    def insert(self, events: Iterable[AlertEvent]) -> Inserted:
        """Stores events; safe to repeat."""
        return self._insert(list(events))

    def all(
        self,
        *,
        since: datetime | None = None,
        rule: str | None = None,
        judge_id: str | None = None,
        limit: int = 1000,
    ) -> list[AlertEvent]:
        """The events from `since` on, the latest first."""
        where = Where().equal("rule", rule).equal("judge_id", judge_id)
        if since is not None:
            where.add("at >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        return self._select(f"{where} ORDER BY at DESC, event_id LIMIT {int(limit)}", where.parameters)

    def get(self, event_ids: Sequence[str]) -> list[AlertEvent]:
        """The events of these ids, the oldest first."""
        return self._select(
            "WHERE event_id IN {event_ids:Array(String)} ORDER BY at, event_id", {"event_ids": list(event_ids)}
        )

    def of_alerts(self, alert_ids: Sequence[str]) -> list[AlertEvent]:
        """The events of these alerts, which the ids of the events that opened them name, the oldest first."""
        return self._select(
            # Nothing of an alert is older than its opening: the rest of the table is not parsed.
            "WHERE at >= (SELECT min(at) FROM alert_events WHERE event_id IN {alert_ids:Array(String)}) AND "
            "(event_id IN {alert_ids:Array(String)} OR "
            "JSONExtractString(evidence, 'fired_event_id') IN {alert_ids:Array(String)}) ORDER BY at, event_id",
            {"alert_ids": list(alert_ids)},
        )

    def beginning(self, prefix: str, *, limit: int = 2) -> list[AlertEvent]:
        """The events whose id begins so, in the order of their ids."""
        return self._select(
            f"WHERE startsWith(event_id, {{prefix:String}}) ORDER BY event_id LIMIT {int(limit)}", {"prefix": prefix}
        )

    def count(self, *, since: datetime) -> int:
        """The number of events from `since` on."""
        where = Where().add("at >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        ((found,),) = self._connection.query(f"SELECT count() FROM alert_events FINAL {where}", where.parameters)
        return int(found)

    def _encode(self, value: AlertEvent) -> Row:
        series = value.series
        return (
            text("event_id", value.event_id),
            microseconds("at", value.at),
            text("rule", series.rule),
            text("environment", series.environment),
            text("app", series.app),
            text("judge_name", series.judge_name),
            text("judge_id", series.judge_id),
            [(text("group", name), text("group", one)) for name, one in series.group],
            text("kind", value.kind),
            text("severity", value.severity),
            flag("heuristic", value.heuristic),
            text("summary", value.summary),
            to_json("evidence", value.evidence),
        )

    def _decode(self, row: Row) -> AlertEvent:
        return AlertEvent(
            event_id=row[0],
            at=from_microseconds(row[1]),
            series=SeriesKey(
                rule=row[2],
                environment=row[3],
                app=row[4],
                judge_name=row[5],
                judge_id=row[6],
                group=tuple((name, one) for name, one in row[7]),
            ),
            kind=row[8],
            severity=row[9],
            heuristic=row[10],
            summary=row[11],
            evidence=from_json(row[12]),
        )


class AlertSnapshots(Table[AlertSnapshot]):
    """Keyed by name. The snapshot of the highest fencing number stands, then the latest: a leader that has been
    replaced without noticing overwrites nothing."""

    name = "alert_snapshots"
    columns = Columns(
        name="String",
        cursor_judged_at=f"Nullable({_INSTANT})",
        cursor_trace_id="String",
        state="String",
        saved_at=_INSTANT,
        fencing="UInt64",
        row_version="UInt64",
    )

    def save(self, snapshot: AlertSnapshot) -> None:
        """Stores a snapshot."""
        self._insert([snapshot])

    def save_all(self, snapshots: Sequence[AlertSnapshot]) -> None:
        """Stores snapshots in one insert, which is all or nothing up to 100 000 rows and 32 MB, else in this order."""
        self._insert(snapshots)

    def load(self, name: str) -> AlertSnapshot | None:
        """The valid snapshot of a name; None where there is none."""
        return next(iter(self._select("WHERE name = {name:String}", {"name": name})), None)

    def load_all(self) -> dict[str, AlertSnapshot]:
        """The snapshots that stand, by name."""
        return {snapshot.name: snapshot for snapshot in self._select("ORDER BY name")}

    def _encode(self, value: AlertSnapshot) -> Row:
        saved_us = microseconds("saved_at", value.saved_at)
        cursor = value.cursor
        return (
            text("name", value.name),
            None if cursor is None else microseconds("cursor", cursor.judged_at),
            "" if cursor is None else text("cursor", cursor.trace_id),
            to_json("state", value.state),
            saved_us,
            whole("fencing", value.fencing, high=2**20 - 1),
            value.fencing << 43 | saved_us // 1000,  # 43 bits of milliseconds: until 2248
        )

    def _decode(self, row: Row) -> AlertSnapshot:
        return AlertSnapshot(
            name=row[0],
            cursor=None if row[1] is None else Cursor(from_microseconds(row[1]), row[2]),
            state=from_json(row[3]),
            saved_at=from_microseconds(row[4]),
            fencing=row[5],
        )


class Outbox(Table[OutboxItem]):
    """Keyed by (event id, notifier). Sent beats given up beats pending, then more attempts beat fewer."""

    name = "outbox"
    columns = Columns(
        event_id="String",
        notifier="LowCardinality(String)",
        state="LowCardinality(String)",
        attempts="UInt32",
        last_error="String",
        updated_at=_INSTANT,
        row_version="UInt64",
        message="String",
    )
    _RANK: Final = {"pending": 0, "given_up": 1, "sent": 2}

    def put(self, items: Sequence[OutboxItem]) -> None:
        """Stores where deliveries stand."""
        self._insert(items)

    def pending(self, *, limit: int = 1000) -> list[OutboxItem]:
        """The pending items, the oldest first."""
        return self._select(f"WHERE state = 'pending' ORDER BY updated_at, event_id, notifier LIMIT {int(limit)}")

    def of(self, event_ids: Sequence[str]) -> list[OutboxItem]:
        """Where these events stand, by channel."""
        return self._select("WHERE event_id IN {event_ids:Array(String)}", {"event_ids": list(event_ids)})

    def pending_of(self, notifier: str, *, limit: int = 1000) -> list[OutboxItem]:
        """What one channel is still to be given: what was tried or put into a message already, then pages, then the
        oldest first."""
        return self._select(
            "WHERE state = 'pending' AND notifier = {notifier:String} ORDER BY attempts DESC, message = '', "
            "event_id NOT IN (SELECT event_id FROM alert_events WHERE severity = 'page'), "
            f"updated_at, event_id LIMIT {int(limit)}",
            {"notifier": notifier},
        )

    def pending_of_others(self, notifiers: Sequence[str], *, limit: int = 1000) -> list[OutboxItem]:
        """The pending items of channels that are not named, the oldest first."""
        return self._select(
            "WHERE state = 'pending' AND notifier NOT IN {notifiers:Array(String)} "
            f"ORDER BY updated_at, event_id, notifier LIMIT {int(limit)}",
            {"notifiers": list(notifiers)},
        )

    def standing(self) -> list[OutboxStanding]:
        """The state of the deliveries of each channel, by its name."""
        rows = self._connection.query(
            "SELECT notifier, countIf(state = 'pending'), countIf(state = 'sent'), countIf(state = 'given_up'), "
            "toUnixTimestamp64Micro(maxIf(updated_at, state = 'sent')), "
            "argMaxIf(last_error, updated_at, state = 'pending' AND last_error != '') "
            "FROM outbox FINAL GROUP BY notifier ORDER BY notifier"
        )
        return [
            OutboxStanding(
                notifier=row[0],
                pending=int(row[1]),
                sent=int(row[2]),
                given_up=int(row[3]),
                last_sent_at=from_microseconds(row[4]) if row[2] else None,
                last_error=row[5],
            )
            for row in rows
        ]

    def _encode(self, value: OutboxItem) -> Row:
        updated_us = microseconds("updated_at", value.updated_at)
        attempts = whole("attempts", value.attempts, high=2**16 - 1)
        return (
            text("event_id", value.event_id),
            text("notifier", value.notifier),
            text("state", value.state),
            attempts,
            text("last_error", value.last_error),
            updated_us,
            self._RANK[value.state] << 60 | attempts << 44 | updated_us // 1000,
            text("message", value.message),
        )

    def _decode(self, row: Row) -> OutboxItem:
        return OutboxItem(
            event_id=row[0],
            notifier=row[1],
            state=row[2],
            attempts=row[3],
            last_error=row[4],
            updated_at=from_microseconds(row[5]),
            message=row[7],
        )


class UserActions(Table[UserAction]):
    """Keyed by action id."""

    name = "user_actions"
    columns = Columns(
        action_id="String",
        kind="LowCardinality(String)",
        target="String",
        start=_INSTANT,
        end=f"Nullable({_INSTANT})",
        by="String",
        note="String",
        at=_INSTANT,
    )

    def insert(self, actions: Sequence[UserAction]) -> Inserted:
        """Stores actions; safe to repeat."""
        return self._insert(actions)

    def all(self, *, since: datetime | None = None) -> list[UserAction]:
        """The actions done from `since` on, the oldest first."""
        where = Where()
        if since is not None:
            where.add("at >= {since:DateTime64(6, 'UTC')}", since=bound_instant("since", since))
        return self._select(f"{where} ORDER BY at, action_id", where.parameters)

    def _encode(self, value: UserAction) -> Row:
        return (
            text("action_id", value.action_id),
            text("kind", value.kind),
            to_json("target", value.target),
            microseconds("start", value.start),
            None if value.end is None else microseconds("end", value.end),
            optional_text("by", value.by) or "",
            text("note", value.note),
            microseconds("at", value.at),
        )

    def _decode(self, row: Row) -> UserAction:
        return UserAction(
            action_id=row[0],
            kind=row[1],
            target=from_json(row[2]),
            start=from_microseconds(row[3]),
            end=None if row[4] is None else from_microseconds(row[4]),
            by=row[5],
            note=row[6],
            at=from_microseconds(row[7]),
        )
