"""Who holds a lease."""

from __future__ import annotations

import os
import socket
import uuid


def process_holder() -> str:
    """A name for leases; its random end tells a holder from its predecessor with the same name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
