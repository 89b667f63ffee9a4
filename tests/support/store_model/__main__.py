"""`python -m tests.support.store_model --steps 2000`: the model test with kills, in a process of its own.

Of its own, because chDB holds one directory a process, and this one must be able to take over from the owner it killed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.support.store_model.driver import run, shrink
from tests.support.store_model.embedded_world import EmbeddedWorld
from tests.support.store_model.operations import operations


def main() -> int:
    """0 when every reader agreed throughout, else 1 with the shortest run found that does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--kill-every", type=int, default=250)
    options = parser.parse_args()
    steps = list(operations(options.seed, options.steps, kill_every=options.kill_every))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        world = EmbeddedWorld(Path(folder) / "store")
        try:
            failure = run(world, steps, seed=options.seed)
            print(
                f"{options.steps} operations, {world.kills} kills, seed {options.seed}, "
                f"{time.monotonic() - began:.0f} s: {failure or 'every reader agreed'}",
                flush=True,
            )
            if failure is None:
                return 0
            shortest, failure = shrink(world, steps[: failure.step])
            print(f"{len(shortest)} operations suffice: {failure}")
            for operation in shortest:
                print(" ", operation)
        finally:
            world.close()
    return 1


if __name__ == "__main__":
    sys.exit(main())
