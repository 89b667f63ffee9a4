"""The end of the process, which nothing that waits in a thread can hold up."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
import time
from typing import Final, NoReturn

_LOG = logging.getLogger(__name__)

_PATIENCE_S: Final = 10.0
_LAST_WORDS_S: Final = 1.0


def end_process(status: int) -> NoReturn:
    """Ends the process with `status`. For its own entry only: some seconds later nothing of it is left.

    Python first waits for every thread that is no daemon, those of all pools among them, without a limit. One that is
    inside a call that does not end (somebody's own function, a library) is left behind after that time: what had to be
    finished and closed is by now.
    """
    threading.Thread(target=_end_anyway, args=(status,), name="tracejudge-end", daemon=True).start()
    _let_go_of_unread()
    # What is left dies with the process: walking over a million objects first, as Python does, takes half a second.
    gc.freeze()
    sys.exit(status)


def _let_go_of_unread() -> None:
    """Drops unread output whose reader has closed the pipe: flushing it at exit would make Python end with status
    120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except ValueError:  # closed
            continue
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end_anyway(status: int) -> None:
    time.sleep(_PATIENCE_S)
    # Whoever read our output may have gone, or read no more, and a thread may wait for him inside a log handler, with
    # its lock: that holds up the end no more than the rest.
    last_words = threading.Thread(target=_say_and_flush, name="tracejudge-last-words", daemon=True)
    last_words.start()
    last_words.join(_LAST_WORDS_S)
    os._exit(status)


def _say_and_flush() -> None:
    at_work = [one.name for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    _LOG.warning("ended with %s still at work", ", ".join(map(repr, at_work)) or "something")
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
