"""The command line: one file a sub-command, imported only when it is called."""

from __future__ import annotations

import importlib
import io
import logging
import traceback
from collections.abc import Sequence
from typing import Final

import click

from tracejudge.errors import (
    CheckFailed,
    MissingExtra,
    NotFound,
    NothingToDecide,
    ServiceUnavailable,
    SettingsError,
    StoreError,
    StoreUnusable,
    TraceJudgeError,
)
from tracejudge_consumer.process.arena import share_one_arena
from tracejudge_consumer.process.ending import end_process
from tracejudge_consumer.terminal.exit_status import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OWN_FAULT,
    EXIT_UNAVAILABLE,
    EXIT_UNDECIDED,
    EXIT_USAGE,
)
from tracejudge_sdk.errors import ConfigError, TransportUnavailable

# Name -> (section, one line of help). The line stands here so that --help imports no command.
_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "demo": ("First day", "Run the whole flow on shipped traces: no key, no service."),
    "init": ("First day", "Write a short commented tracejudge.toml."),
    "doctor": ("First day", "Check queue, store, judges and clock, each with its fix."),
    "config": ("First day", "Check the settings file and show what is in force."),
    "migrate": ("First day", "Create or upgrade the store's tables."),
    "contract": ("First day", "The wire contract: check a file, print schema and vectors."),
    "score": ("First day", "Judge a file of traces: no queue, no store."),
    "ingest": ("Run", "Send files of traces to the queue."),
    "gateway": ("Run", "Take traces over HTTP, for apps in any language."),
    "consume": ("Run", "Read the queue, sample, judge and store."),
    "watch": ("Run", "Run the alert loop over stored scores."),
    "up": ("Run", "Consumer and alert loop in one process."),
    "rates": ("Look", "Pass rates with intervals, per window and slice."),
    "worst": ("Look", "The worst answers, with passage and reason."),
    "find": ("Look", "One answer among millions: by user, words, outcome."),
    "show": ("Look", "Everything known about one trace."),
    "tail": ("Look", "Follow scores as they are stored."),
    "ledger": ("Look", "Account for every trace, per judge."),
    "cost": ("Look", "What judging cost, per judge, app or day."),
    "sampling": ("Look", "Why a trace was judged; what another policy would bring."),
    "stats": ("Look", "How large the store is, and how fast it grows."),
    "report": ("Look", "A period or a run as one HTML file, for paper too."),
    "alerts": ("Look", "Past alert events, and the state of every series."),
    "anchors": ("Change", "Frozen traces that tell a judge that moved."),
    "judges": ("Change", "List judges, show what they ask, try them, make one live."),
    "dead-letters": ("Change", "Records nobody could read: look, send again, give up."),
    "retry": ("Change", "Judge again what a judge failed to judge."),
    "replay": ("Change", "Judge stored traces again, under another judge."),
    "gate": ("Change", "Pass or fail a release on a fixed dataset."),
    "release": ("Change", "Is a new release no worse than the old one?"),
    "compare": ("Change", "Compare two judges or runs on the same traces."),
    "judge": ("Change", "Judge one stored answer by hand."),
    "label": ("Change", "Say whether an answer is good, or walk a list."),
    "dataset": ("Data", "Versioned datasets out of stored traffic."),
    "export": ("Data", "Stored traces or scores into JSONL or Parquet."),
    "forget": ("Data", "Delete a trace or a person, and keep them out."),
}


class _SeenEnough(Exception):
    """Whoever read our output has gone. No OSError: of that click makes a status of 1, which is a failed check."""


class _LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # `tracejudge rates | head`
            raise _SeenEnough from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"tracejudge_consumer.commands.{name.replace('-', '_')}")
        command = getattr(module, "command")  # noqa: B009 - mypy knows no attribute of a module found at run time
        if not isinstance(command, click.Command):
            raise TypeError(f"tracejudge_consumer.commands.{name}.command is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, (section, text) in _COMMANDS.items():
            sections.setdefault(section, []).append((name, text))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with `tracejudge demo`, then `tracejudge init`. Each command's --help has examples.",
)
@click.version_option(package_name="tracejudge")
def cli() -> None:
    """tracejudge judges a sample of your production RAG answers, tells how many are good within an interval, and
    raises an alert when they become worse."""


def main(args: Sequence[str] | None = None) -> None:
    """Runs the command line and ends the process with its exit status."""
    share_one_arena()
    end_process(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    # These tell every reconnection in a dozen lines, which our own loggers say in one.
    # (The level of "urllib3" itself is set by clickhouse-connect when it is imported.)
    for name in ("kafka", "urllib3.connectionpool", "clickhouse_connect"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        result = cli.main(args=None if args is None else list(args), prog_name="tracejudge", standalone_mode=False)
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        click.echo(_harmless(said.getvalue()), nl=False, err=True)
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except (SettingsError, NotFound, MissingExtra, StoreUnusable, ConfigError) as error:
        return _fail(error, EXIT_USAGE)
    except (ServiceUnavailable, TransportUnavailable) as error:
        return _fail(error, EXIT_UNAVAILABLE)
    except CheckFailed as error:
        return _fail(error, EXIT_FAILED)
    except NothingToDecide as error:
        return _fail(error, EXIT_UNDECIDED)
    except _SeenEnough:
        return EXIT_DONE
    except (StoreError, TraceJudgeError) as error:
        return _fail(error, EXIT_OWN_FAULT)
    except Exception:  # noqa: BLE001 - the last line of defence: say that it is our fault, with all there is to report
        traceback.print_exc()
        click.echo("tracejudge: this is a fault of ours; please report it with the lines above", err=True)
        return EXIT_OWN_FAULT
    return result if isinstance(result, int) else EXIT_DONE


def _fail(error: Exception, status: int) -> int:
    lines = str(error).splitlines() or [type(error).__name__]
    for line in lines:
        click.echo(f"{click.style('error', fg='red', bold=True)}: {_harmless(line)}", err=True)
    return status


def _harmless(text: str) -> str:
    """An error may quote a trace, a line of a file or an app's name: nothing of it may speak to the terminal."""
    from tracejudge_consumer.terminal.rendering import harmless  # here: a command that goes well need not load it

    return harmless(text)


if __name__ == "__main__":
    main()
