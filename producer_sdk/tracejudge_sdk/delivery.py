"""Handing encoded records to the transport until each has arrived, was refused for good, or time is up.

A batch that the queue did not take is sent again after a growing pause, for as long as the process lives; a record that
the queue will never take is found, dropped and counted, and its neighbours go on.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tracejudge_sdk.account import DropReason
from tracejudge_sdk.codec import DEFAULT_MAX_RECORD_BYTES
from tracejudge_sdk.errors import TraceJudgeSdkError, TransportError, TransportRejected
from tracejudge_sdk.notices import debug
from tracejudge_sdk.transports import Transport

_UNEXPECTED_LIMIT: Final = 3


@dataclass(frozen=True)
class SendPolicy:
    """How the sending threads behave."""

    batch_records: int = 500
    batch_bytes: int = 4_000_000
    linger_s: float = 0.1
    """How long traces gather before they are looked for again."""
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    """Pauses between tries double from the first to the longest, each cut by a random part of up to a half."""
    report_interval_s: float = 60.0
    """At most one warning in the log in this time."""


class Ready(NamedTuple):
    """An encoded record, and what its owner knows it by."""

    item: Any
    key: str
    data: bytes


class Account(Protocol):
    """For whom a delivery works: told what became of each record, and asked whether to go on."""

    @property
    def over(self) -> bool:
        """Whether time is up: nothing is tried again."""
        ...

    def arrived(self, records: Sequence[Ready]) -> None: ...

    def refused(self, records: Sequence[Ready], reason: DropReason) -> None: ...

    def failed(self, words: str) -> None:
        """A try failed, and why."""
        ...

    def pause(self, timeout_s: float) -> None:
        """Waits before the next try; a flush or a close ends it."""
        ...


class Delivery:
    """The transport, made when it is first needed, and the rule by which things are tried again.

    Used by one thread at a time but for `close` and `forget`; two threads that send take turns.
    """

    def __init__(self, transport: Callable[[], Transport], policy: SendPolicy) -> None:
        self._make_transport = transport
        self._policy = policy
        self._turn = threading.Lock()
        self._transport: Transport | None = None

    def connect(self, account: Account) -> int | None:
        """Makes the transport, however long it takes, and gives the largest record it takes; None when time is up."""
        pauses = _Pauses(self._policy)
        while not account.over:
            try:
                with self._turn:
                    return self._connected().max_record_bytes
            except Exception as error:  # noqa: BLE001 - nothing may end this thread; TransportUnavailable is one of many
                account.failed(_words(error))
            account.pause(pauses.next())
        return None

    def record_limit(self) -> int:
        """The largest record the transport takes; the usual limit where there is no transport yet."""
        transport = self._transport
        return DEFAULT_MAX_RECORD_BYTES if transport is None else transport.max_record_bytes

    def deliver(self, ready: Sequence[Ready], account: Account, *, once: bool = False) -> list[Ready]:
        """Sends the records until each has arrived or was refused, or time is up; with `once` without a second try.

        Gives those that are left.
        """
        left = list(ready)
        alone = False  # send one record at a time, to find which of them is the trouble
        pauses, unexpected = _Pauses(self._policy), 0
        while left and not account.over:
            now = left[:1] if alone else left
            try:
                with self._turn:
                    self._connected().send([(record.key, record.data) for record in now])
            except Exception as error:  # noqa: BLE001 - nothing may end this thread; TransportUnavailable is one of many
                failure = error
            else:
                account.arrived(now)
                left = left[len(now) :]
                continue
            account.failed(_words(failure))
            named = failure.failed if isinstance(failure, TransportError) else None
            if isinstance(failure, TransportRejected):
                if named is None and not alone and len(left) > 1:
                    alone = True
                else:
                    lost = range(len(now)) if named is None else named
                    account.refused([now[i] for i in lost], "transport_rejected")
                    account.arrived([now[i] for i in range(len(now)) if i not in set(lost)])
                    left = left[len(now) :]
                continue
            if named is not None and not alone:
                account.arrived([left[i] for i in range(len(left)) if i not in set(named)])
                left = [left[i] for i in sorted(set(named))]
            elif not isinstance(failure, (TraceJudgeSdkError, OSError)):
                # Not a failure of the other side as we know them: perhaps a record that breaks the library behind it.
                unexpected += 1
                if unexpected % _UNEXPECTED_LIMIT == 0:
                    if len(now) == 1:
                        account.refused(now, "internal_error")
                        left = left[1:]
                    alone = True
                    continue
            if once:
                break
            account.pause(pauses.next())
        return left

    def close(self, timeout_s: float) -> None:
        """Closes the transport; from another thread this also ends a send under way."""
        transport = self._transport
        if transport is not None:
            try:
                transport.close(timeout_s)
            except Exception as error:  # noqa: BLE001 - at the end there is nobody left who could do better
                debug("tracejudge: closing the transport failed: %s", type(error).__name__)

    def forget(self) -> Transport | None:
        """Lets go of the transport without closing it, for a forked child: the sockets are the parent's too."""
        transport, self._transport = self._transport, None
        forget = getattr(transport, "forget", None)
        if forget is not None:
            forget()
        return transport

    def _connected(self) -> Transport:
        if self._transport is None:
            self._transport = self._make_transport()
        return self._transport


class _Pauses:
    """Growing pauses, each cut by a random part, so that many processes do not all come back at once."""

    def __init__(self, policy: SendPolicy) -> None:
        self._next_s = policy.first_pause_s
        self._longest_s = policy.longest_pause_s

    def next(self) -> float:
        pause_s = self._next_s * (1.0 - random.random() / 2)  # noqa: S311 - spreads retries, hides nothing
        self._next_s = min(self._next_s * 2, self._longest_s)
        return pause_s


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
