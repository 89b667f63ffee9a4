"""The judge server as a process of its own, so that a bench does not share the interpreter lock with its judge."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.instant_judge import serve_instantly
from tests.support.judge_reply import server_error
from tests.support.judge_script import (
    always,
    failing_randomly,
    rate_limited_randomly,
    verdict_by_regex,
    with_latency,
)
from tests.support.judge_server import JudgeServer
from tests.support.judge_tally import JudgeLoad

_ROOT = Path(__file__).resolve().parents[2]


class JudgeProcess:
    """`python -m tests.support.judge_server` with the options given, ended with the `with` block.

    with JudgeProcess("--latency-median-ms", "50", "--sigma", "0.4") as judge:
        judge.base_url, judge.stats()
    """

    def __init__(self, *options: str) -> None:
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.base_url = ""

    def stats(self) -> dict[str, Any]:
        """The counts, as `/stats` gives them."""
        return self._get("stats")

    def load(self) -> JudgeLoad:
        """How busy it has been: small whatever it was asked, so that asking disturbs nothing."""
        return JudgeLoad(**self._get("load"))

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.base_url.removesuffix('/v1')}/{path}", timeout=10) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
        return found

    def __enter__(self) -> JudgeProcess:
        command = [sys.executable, "-m", "tests.support.judge_server", "--print-url", "--until-stdin-closes"]
        self._process = subprocess.Popen(
            [*command, *self._options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT
        )
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().strip()
        if not self.base_url:
            raise RuntimeError(f"the judge ended with status {self._process.wait(10)}; its error is above")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM."""
    options = _parser().parse_args(arguments)
    if options.instant:
        asyncio.run(_serve_instantly(options))
        return
    script = always(options.content)
    if options.fail_when:
        script = verdict_by_regex(options.fail_when, found=options.failed_content, otherwise=options.content)
    # The latency goes on first: a refused call is answered at once, as by a real gateway.
    if options.latency_median_ms:
        median_s = options.latency_median_ms / 1000
        script = with_latency(script, median_s=median_s, sigma=options.sigma, seed=options.seed)
    if options.error_probability:
        script = failing_randomly(script, options.error_probability, server_error(), seed=options.seed)
    if options.rate_limit_probability:
        script = rate_limited_randomly(
            script, options.rate_limit_probability, retry_after_s=options.retry_after_s, seed=options.seed
        )
    server = JudgeServer(
        script,
        port=options.port,
        api_key=options.api_key,
        models=options.model or ("judge",),
        max_concurrent=options.max_concurrent,
        retry_after_s=options.retry_after_s,
        keep_requests=100,  # a long bench needs the counts, not the texts
    )
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    with server:
        if options.print_url:
            print(server.base_url, flush=True)
        if options.until_stdin_closes:
            threading.Thread(target=_call_at_end_of_stdin, args=(done.set,), daemon=True).start()
        done.wait()


async def _serve_instantly(options: argparse.Namespace) -> None:
    done, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    if options.until_stdin_closes:
        call = partial(loop.call_soon_threadsafe, done.set)
        threading.Thread(target=_call_at_end_of_stdin, args=(call,), daemon=True).start()
    await serve_instantly(options.content, port=options.port, done=done)


def _call_at_end_of_stdin(call: Callable[[], object]) -> None:
    sys.stdin.read()
    call()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.support.judge_server", description=main.__doc__)
    add = parser.add_argument
    add("--port", type=int, default=0, help="on loopback; 0 takes a free one")
    add("--instant", action="store_true", help="say --content at once, at a tenth of the CPU, and count nothing")
    add("--print-url", action="store_true", help="print the base URL when connections are accepted")
    add("--content", default="YES", help="what the judge says")
    add("--fail-when", metavar="REGEX", help="say --failed-content where the prompt matches")
    add("--failed-content", default="NO")
    add("--latency-median-ms", type=float, default=0.0, help="median of a lognormal latency")
    add("--sigma", type=float, default=0.0, help="sigma of the lognormal latency")
    add("--rate-limit-probability", type=float, default=0.0, help="chance of a 429 per attempt")
    add("--error-probability", type=float, default=0.0, help="chance of a 500 per attempt")
    add("--retry-after-s", type=float, help="the Retry-After of each 429")
    add("--max-concurrent", type=int, help="429 above it")
    add("--api-key", help="compulsory bearer key")
    add("--model", action="append", help="listed by /v1/models; may be repeated")
    add("--seed", type=int, default=0)
    add("--until-stdin-closes", action="store_true", help="end with the process that holds the other end of stdin")
    return parser
