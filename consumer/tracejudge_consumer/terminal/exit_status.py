"""What the status says with which a command ends.

0 done or passed, 1 a quality or check failure, 2 could not decide, 64 usage or configuration error, 70 our own fault,
75 a service was not there (try again), 130 interrupted.
"""

from __future__ import annotations

from typing import Final

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_UNDECIDED: Final = 2
EXIT_USAGE: Final = 64
EXIT_OWN_FAULT: Final = 70
EXIT_UNAVAILABLE: Final = 75
EXIT_INTERRUPTED: Final = 130
