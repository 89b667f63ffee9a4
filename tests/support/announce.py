"""Says in one line, before the tests, what they leave out on this machine."""

from __future__ import annotations

import os
import shutil


def main() -> None:
    """Prints one line for each service that is not here and is not named by the environment."""
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    if missing and "TRACEJUDGE_TEST_KAFKA" not in os.environ:
        print(f"note: no {' and no '.join(missing)} here, so the tests on a real Kafka broker are left out")


if __name__ == "__main__":
    main()
