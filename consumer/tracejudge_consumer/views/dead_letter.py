"""A dead letter: the facts about it, and its record."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from rich.console import Console

from tracejudge.store import StoredDeadLetter
from tracejudge_consumer.terminal.bytes_shown import preview
from tracejudge_consumer.terminal.rendering import harmless, ident, instant, one_line

_PREVIEW_BYTES: Final = 4_000


def letter_facts(row: StoredDeadLetter) -> dict[str, object]:
    """What is known of it beside its record, for machines."""
    letter = row.letter
    return {
        "id": row.letter_id,
        "at": letter.at,
        "source": letter.source,
        "partition": letter.partition,
        "offset": letter.offset,
        "reason": letter.reason,
        "detail": letter.detail,
        "bytes": len(letter.value),
        "key_base64": None if letter.key is None else b64encode(letter.key).decode(),
        "headers": [[name, b64encode(value).decode()] for name, value in letter.headers],
        "state": row.state,
        "marked_at": row.marked_at,
    }


def show_letter_in(out: Console, row: StoredDeadLetter) -> None:
    """Prints the record so that no terminal obeys it."""
    letter = row.letter
    out.print(f"{row.letter_id}  {ident(letter.source)} partition {letter.partition} offset {letter.offset}")
    out.print(f"read       {instant(letter.at)} UTC")
    out.print(f"reason     {harmless(letter.reason)}: {one_line(letter.detail, limit=2_000)}")
    out.print(f"state      {row.state}" + (f" at {instant(row.marked_at)} UTC" if row.marked_at else ""))
    if letter.key is not None:
        out.print(f"key        {preview(letter.key, limit=200)}")
    for name, value in letter.headers:
        out.print(f"header     {ident(name)} = {preview(value, limit=200)}")
    out.print(f"record     {len(letter.value)} bytes" + (", dropped" if row.state == "dropped" else ""))
    out.print(preview(letter.value, limit=_PREVIEW_BYTES), soft_wrap=True)
    if len(letter.value) > _PREVIEW_BYTES:
        out.print(f"... first {_PREVIEW_BYTES} of {len(letter.value)} bytes; --raw writes all of them")
