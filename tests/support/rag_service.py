"""A small RAG service: FastAPI over a LlamaIndex query engine whose language model is scripted.

Run by gunicorn with `--preload`, so everything here is made once in the master, and every worker is a fork of it. With
TRACEJUDGE_QUEUE set it logs its answers by the one line of the LlamaIndex integration; without, it is the same service
without the SDK. When a worker ends it writes what its client counted to WORKER_FOLDER/PID.json.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index_instrumentation.dispatcher import instrument_tags

from tests.support.scripted_llm import KeywordRetriever, ScriptedLLM
from tracejudge_sdk import TraceClient
from tracejudge_sdk.integrations import llama_index

TRACE_HEADER = "x-trace-id"
WORKER_HEADER = "x-worker"
BROKEN = "broken"
"""A question with this word makes the model raise."""
_PIECES = 20


def _script(prompt: str) -> list[str]:
    if BROKEN in prompt:
        raise ConnectionError("the model is not there")
    return [f"piece {number} " for number in range(_PIECES)]


_client: TraceClient | None = None
if "TRACEJUDGE_QUEUE" in os.environ:
    _client = TraceClient.from_env()
    llama_index.install(_client)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    if _client is None:
        return
    # Here and not at exit: after its own shutdown uvicorn raises SIGTERM once more, which ends a worker on the spot.
    await asyncio.to_thread(_client.close, _client.settings.exit_timeout_s)
    (Path(os.environ["WORKER_FOLDER"]) / f"{os.getpid()}.json").write_text(json.dumps(_counts(_client)))


def _counts(client: TraceClient) -> dict[str, Any]:
    stats = vars(client.stats())
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in stats.items()}


_llm = ScriptedLLM(_script)
_whole = RetrieverQueryEngine.from_args(KeywordRetriever(), llm=_llm)
_streamed = RetrieverQueryEngine.from_args(KeywordRetriever(), llm=_llm, streaming=True)

app = FastAPI(lifespan=_lifespan)


def _tags(request: Request) -> dict[str, Any]:
    return {"trace_id": request.headers[TRACE_HEADER], "worker": str(os.getpid())}


@app.exception_handler(ConnectionError)
async def _model_is_gone(request: Request, error: ConnectionError) -> JSONResponse:
    return JSONResponse({"error": str(error)}, status_code=503, headers={WORKER_HEADER: str(os.getpid())})


@app.get("/counts")
async def counts() -> JSONResponse:
    """What the client of the worker that happens to answer has counted so far."""
    assert _client is not None
    return JSONResponse(_counts(_client), headers={WORKER_HEADER: str(os.getpid())})


@app.get("/ask")
async def ask(request: Request, question: str) -> JSONResponse:
    """The whole answer."""
    with instrument_tags(_tags(request)):
        response = await _whole.aquery(question)
    return JSONResponse({"answer": str(response)}, headers={WORKER_HEADER: str(os.getpid())})


@app.get("/stream")
async def stream(request: Request, question: str) -> StreamingResponse:
    """The answer piece by piece."""
    with instrument_tags(_tags(request)):
        response: Any = await _streamed.aquery(question)
    pieces: AsyncIterator[str] = response.async_response_gen()
    return StreamingResponse(pieces, media_type="text/plain", headers={WORKER_HEADER: str(os.getpid())})
