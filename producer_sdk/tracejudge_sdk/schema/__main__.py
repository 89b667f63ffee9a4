"""Prints the contract as the code says it: `python -m tracejudge_sdk.schema record`."""

from __future__ import annotations

import json
import sys

from tracejudge_sdk.codec import json_schema
from tracejudge_sdk.schema import keep_vectors


def main(arguments: list[str]) -> int:
    """Exit status 64 for anything but `record` or `keep`."""
    contents = {"record": json_schema, "keep": keep_vectors}
    if len(arguments) != 1 or arguments[0] not in contents:
        print("usage: python -m tracejudge_sdk.schema record|keep", file=sys.stderr)
        return 64
    print(json.dumps(contents[arguments[0]](), indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
