"""Query engines as a user would have them, for tests of the command that asks one."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.response.schema import AsyncStreamingResponse, Response
from llama_index.core.schema import NodeWithScore, TextNode


class Engine:
    """Answers with its question and a passage; streams for "stream", raises for POISON; counts what is open."""

    def __init__(self) -> None:
        self.open = self.most_open = 0

    async def aquery(self, query: str) -> Any:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            for _ in range(5):
                await asyncio.sleep(0)
        finally:
            self.open -= 1
        if "POISON" in query:
            raise RuntimeError("the index is empty")
        if "HANG" in query:
            await asyncio.Event().wait()
        node = NodeWithScore(node=TextNode(id_="p-1", text=f"The limit of {query} is ten users."), score=0.5)
        if "stream" in query:

            async def pieces() -> Any:
                for piece in ("Par", "is"):
                    yield piece

            return AsyncStreamingResponse(response_gen=pieces(), source_nodes=[node])
        return Response(response=f"The limit of {query} is ten users.", source_nodes=[node])


ENGINE = Engine()


def build_engine() -> Engine:
    return Engine()


def no_engine() -> str:
    return "engine"


def broken() -> Engine:
    raise RuntimeError("no index on disk")
