"""How records and files are read: their form, and who knows the texts of passages that come as ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracejudge_consumer.settings import Settings
from tracejudge_sdk.transports import KafkaQueue, parse_queue_url

if TYPE_CHECKING:
    from tracejudge_consumer.files.form import FileForm
    from tracejudge_consumer.intake.form import RecordForm
    from tracejudge_consumer.intake.mapping import ForeignForm
    from tracejudge_consumer.intake.resolve import NodeResolver
    from tracejudge_consumer.watching.metrics import Metrics


def build_line_form(settings: Settings) -> ForeignForm | None:
    """The mapping of the settings; None where records have our own form."""
    if settings.intake.mapping is None:
        return None
    from tracejudge_consumer.intake.mapping import ForeignForm

    return ForeignForm(settings.intake.mapping)


def build_resolver(settings: Settings, *, metrics: Metrics | None = None) -> NodeResolver | None:
    """The user's function that knows the texts of passages; None without one. Raises SettingsError."""
    name = settings.intake.resolve_nodes
    if name is None:
        return None
    from tracejudge_consumer.intake.resolve import NodeResolver, load_hook

    if metrics is None:
        return NodeResolver(load_hook(name), name=name)
    unresolved = metrics.unresolved
    return NodeResolver(
        load_hook(name), name=name, unresolved=lambda reason, count: unresolved.labels(reason).inc(count)
    )


def build_file_form(settings: Settings) -> FileForm:
    """How files are read that are judged here and now."""
    from tracejudge_consumer.files.form import FileForm

    return FileForm(form=build_line_form(settings), resolver=build_resolver(settings))


def build_record_form(settings: Settings, *, metrics: Metrics | None = None) -> RecordForm:
    """How records of the queue are read."""
    from tracejudge_consumer.intake.form import RecordForm, own_form

    read, form = own_form, build_line_form(settings)
    if form is not None:
        from tracejudge_consumer.intake.mapping import MappedReader

        read = MappedReader(form, app=queue_app(settings))
    return RecordForm(read=read, resolver=build_resolver(settings, metrics=metrics))


def queue_app(settings: Settings) -> str:
    """The app of mapped records that name none: that of the queue."""
    queue = parse_queue_url(settings.queue)
    return queue.topic if isinstance(queue, KafkaQueue) else str(getattr(queue, "path", Path("queue")).stem)
