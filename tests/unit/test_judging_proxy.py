"""The way to a judge's endpoint leads through the proxy that the environment names, which is looked up once."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from tests.support.panels import llm_spec
from tracejudge.judging.calls.client import Message, OpenAICompatible
from tracejudge.judging.calls.proxy import proxy_for


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "[::1]", "localhost", "judge.localhost"])
def test_no_proxy_stands_before_this_machine(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """A machine behind a proxy, with a model of its own: the proxy would look for it on the proxy's machine."""
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    assert proxy_for(f"http://{host}:8000/v1") is None
    assert proxy_for("http://10.0.0.7:8000/v1") == "http://proxy.example:3128"


class Proxy(BaseHTTPRequestHandler):
    """Answers for every host, and notes what it was asked for."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, self.headers.get("Proxy-Authorization", "")))
        data = json.dumps({"choices": [{"message": {"content": "YES"}, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


async def test_calls_go_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://ann:secret@127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "inside.example")
        client = OpenAICompatible(llm_spec(base_url="http://judge.example/v1"), api_key=None)
        try:
            assert (await client.complete([Message("user", "?")])).text == "YES"
        finally:
            await client.close()
            server.shutdown()
    ((path, credentials),) = Proxy.asked
    assert path == "http://judge.example/v1/chat/completions"
    assert credentials.startswith("Basic ")
    inside = OpenAICompatible(llm_spec(base_url="http://inside.example/v1"), api_key=None)
    assert inside._proxy is None
