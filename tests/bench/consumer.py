"""What the consumer costs: end to end per core, reading, memory, a slow judge's time, verdicts bought twice.

TRACEJUDGE_DATA=FOLDER python -m tests.bench.consumer --quick
"""

from __future__ import annotations

import sys

from tests.bench.consumer_bought import bought
from tests.bench.consumer_decode import decoding
from tests.bench.consumer_flow import flow
from tests.bench.consumer_memory import memory
from tests.bench.consumer_slots import slots
from tests.bench.frame import main
from tracejudge_consumer.process.arena import share_one_arena

CASES = {"flow": flow, "decode": decoding, "memory": memory, "slots": slots, "bought": bought}

if __name__ == "__main__":
    share_one_arena()  # as the command line does
    sys.exit(main("consumer", CASES))
