"""The embedded engine: one owner process per directory serves chDB over ClickHouse's HTTP interface on loopback.

`locate(path)` is all that the rest of the store needs: it makes this process the owner, or finds the one there is.
"""

from tracejudge.store.embedded.locate import locate, release
from tracejudge.store.embedded.ownership import Endpoint, holds_store

__all__ = ["Endpoint", "holds_store", "locate", "release"]
