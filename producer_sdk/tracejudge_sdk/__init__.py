"""tracejudge's logging client: the hook that a RAG service installs, and the wire contract.

    client = TraceClient("sqlite:///queue.db", app="shop")
    client.log(query="...", response="...", source_nodes=[{"node_id": "n1", "text": "...", "score": 0.9}])
    client.close()

Importing it loads no client library; those come with the first trace that is sent.
"""

from tracejudge_sdk._version import __version__
from tracejudge_sdk.account import ClientStats
from tracejudge_sdk.client import TraceClient
from tracejudge_sdk.config import ClientSettings
from tracejudge_sdk.default_client import default_client, set_default_client
from tracejudge_sdk.delivery import SendPolicy
from tracejudge_sdk.errors import (
    ConfigError,
    LeaseLost,
    RecordError,
    RecordTooLarge,
    TraceJudgeSdkError,
    TransportError,
    TransportRejected,
    TransportUnavailable,
)
from tracejudge_sdk.ids import new_trace_id
from tracejudge_sdk.observe import observe
from tracejudge_sdk.recording import TraceRecording, current_trace
from tracejudge_sdk.sampling import keep
from tracejudge_sdk.trace import Feedback, Record, SourceNode, Trace, TracePart, Turn
from tracejudge_sdk.transports import Transport, parse_queue_url, transport_for

__all__ = [
    "ClientSettings",
    "ClientStats",
    "ConfigError",
    "Feedback",
    "LeaseLost",
    "Record",
    "RecordError",
    "RecordTooLarge",
    "SendPolicy",
    "SourceNode",
    "Trace",
    "TraceClient",
    "TraceJudgeSdkError",
    "TracePart",
    "TraceRecording",
    "Transport",
    "TransportError",
    "TransportRejected",
    "TransportUnavailable",
    "Turn",
    "__version__",
    "current_trace",
    "default_client",
    "keep",
    "new_trace_id",
    "observe",
    "parse_queue_url",
    "set_default_client",
    "transport_for",
]
