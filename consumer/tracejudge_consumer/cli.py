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
    "demo": ("First day", "Run the whole flow on bundled traces: no API key, no service."),
    "init": ("First day", "Write a short, commented tracejudge.toml."),
    "doctor": ("First day", "Check queue, store, judges and clock; suggest fixes."),
    "config": ("First day", "Validate the settings file and show the effective settings."),
    "migrate": ("First day", "Create or upgrade the store's tables."),
    "contract": ("First day", "Wire contract: check a file, print schema and test vectors."),
    "score": ("First day", "Judge a file of traces: no queue, no store."),
    "ingest": ("Run", "Send trace files to the queue."),
    "gateway": ("Run", "Accept traces over HTTP from apps in any language."),
    "consume": ("Run", "Read traces from the queue, sample, judge and store them."),
    "watch": ("Run", "Run the alert loop on stored scores."),
    "up": ("Run", "Run consumer and alert loop in one process."),
    "rates": ("Look", "Pass rates with confidence intervals, per window and slice."),
    "worst": ("Look", "The worst answers, each with passage and reason."),
    "find": ("Look", "Find answers by user, words, time or outcome."),
    "show": ("Look", "Everything known about one trace."),
    "tail": ("Look", "Follow new scores as they are stored."),
    "ledger": ("Look", "Account for every trace, per judge."),
    "cost": ("Look", "Cost of judging, per judge, app or day."),
    "sampling": ("Look", "Why a trace was judged; what a policy change would do."),
    "stats": ("Look", "Size and growth of the store."),
    "report": ("Look", "Report on a period or a run, as one printable HTML file."),
    "alerts": ("Look", "State of every series, and past alert events."),
    "anchors": ("Change", "Frozen traces that detect drift of a judge."),
    "judges": ("Change", "List, inspect and test judges; make one live."),
    "dead-letters": ("Change", "Unreadable records: list, show, resend or drop them."),
    "retry": ("Change", "Judge invalid scores again."),
    "replay": ("Change", "Judge stored traces again with another judge."),
    "gate": ("Change", "Pass or fail a release, on a fixed dataset."),
    "release": ("Change", "Check that a new release is no worse than the old one."),
    "compare": ("Change", "Compare two judges, runs or versions."),
    "judge": ("Change", "Judge one stored answer now."),
    "label": ("Change", "Label one answer, or a list of answers, as good or bad."),
    "dataset": ("Data", "Build versioned datasets from stored traffic."),
    "export": ("Data", "Export stored traces or scores to JSONL or Parquet."),
    "forget": ("Data", "Delete a trace or all data of a user, permanently."),
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
    epilog="Start with `tracejudge demo`, then `tracejudge init`. Each command's --help has examples.",
)
@click.version_option(package_name="tracejudge")
def cli() -> None:
    """Judge a sample of your production RAG answers, estimate the pass rate with a confidence interval, and alert
    when it falls."""


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
        click.echo(_harmless(traceback.format_exc()), nl=False, err=True)
        click.echo("tracejudge: this is a bug; please report it with the lines above", err=True)
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
