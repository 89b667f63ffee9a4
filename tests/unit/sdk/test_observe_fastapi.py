"""`@observe` on endpoints of a FastAPI application: the framework sees the function it would have seen without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from tracejudge_sdk import TraceClient, current_trace


class Question(BaseModel):
    """The body of a request."""

    question: str
    user: str = "u0"


class Answer(BaseModel):
    """The body of an answer."""

    answer: str
    passages: list[str]


@pytest.fixture
async def http(client: TraceClient) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()

    @app.post("/ask")
    @client.observe(query="body.question", source_nodes="passages", user_id=lambda call: call["body"].user)
    async def ask(body: Question) -> Answer:
        if body.question == "unknown":
            raise HTTPException(404, "nothing is known of that")
        return Answer(answer=f"said {body.question}", passages=["p1", "p2"])

    @app.get("/blocking")
    @client.observe
    def blocking(question: str) -> str:
        trace = current_trace()
        assert trace is not None
        trace.add_source_nodes(f"passage for {question}")
        return f"said {question}"

    @client.observe
    async def pieces(question: str) -> AsyncIterator[str]:
        for word in ("said ", question):
            await asyncio.sleep(0)
            yield word

    @app.get("/stream")
    async def stream(question: str) -> StreamingResponse:
        return StreamingResponse(pieces(question))

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as http:
        yield http


async def test_endpoints_answer_as_before_and_are_logged(http: httpx.AsyncClient, traces: Any) -> None:
    got = await http.post("/ask", json={"question": "why?", "user": "u7"})
    assert (got.status_code, got.json()) == (200, {"answer": "said why?", "passages": ["p1", "p2"]})
    assert (await http.post("/ask", json={"wrong": 1})).status_code == 422  # its parameters are still checked
    assert (await http.get("/blocking", params={"question": "how?"})).json() == "said how?"
    assert (await http.get("/stream", params={"question": "when?"})).text == "said when?"
    found = [(t.query, t.response, t.user_id, [node.text for node in t.source_nodes]) for t in traces()]
    assert found == [
        ("why?", "said why?", "u7", ["p1", "p2"]),
        ("how?", "said how?", None, ["passage for how?"]),
        ("when?", "said when?", None, []),
    ]


async def test_an_http_exception_is_the_answer_it_was_meant_to_be(http: httpx.AsyncClient, traces: Any) -> None:
    got = await http.post("/ask", json={"question": "unknown"})
    assert (got.status_code, got.json()) == (404, {"detail": "nothing is known of that"})
    (trace,) = traces()
    assert (trace.query, trace.status) == ("unknown", "error")
    assert "nothing is known of that" in trace.error
