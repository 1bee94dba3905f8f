"""A model that says what it was told to: a chat-completions endpoint on the loopback."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from .configuration import configured

# The tool that is called for a prompt, and its arguments.
Call: TypeAlias = tuple[str, Mapping[str, Any]]


@contextlib.contextmanager
def scripted_model(plan: Mapping[str, Call]) -> Iterator[ScriptedModel]:
    """Serve a scripted model that Hermes is configured for; a prompt that ends with a key of *plan* gets that call."""
    with ScriptedModel(plan) as model:
        threading.Thread(target=model.serve_forever, args=(0.01,), daemon=True).start()
        try:
            with configured(f"model: {{provider: custom, default: scripted, base_url: '{model.url}', api_key: none}}"):
                yield model
        finally:
            model.shutdown()


class ScriptedModel(ThreadingHTTPServer):
    """A chat-completions endpoint on the loopback: calls the planned tool for a prompt, then says "done"."""

    daemon_threads = True

    def __init__(self, plan: Mapping[str, Call]) -> None:
        """*plan* has, by the end of a prompt, the call that the prompt gets."""
        super().__init__(("127.0.0.1", 0), _Completions)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self._plan = plan
        self._results: list[Any] = []

    def take(self) -> list[Any]:
        """Return the results of the tools that the agent has reported since the last call."""
        results, self._results = self._results, []
        return results

    def message(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the assistant's next message, and note the results of tools in *messages*."""
        results = [message["content"] for message in messages if message["role"] == "tool"]
        self._results += results
        prompt = str(messages[-1]["content"]).strip()
        planned = [call for said, call in self._plan.items() if prompt.endswith(said)]
        if results or not planned:
            return {"role": "assistant", "content": "done"}
        name, arguments = planned[0]
        call = {"name": name, "arguments": json.dumps(arguments)}
        return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": call}]}


class _Completions(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body leave together: sent apart, the second waits 40 ms for the first's acknowledgement.
    wbufsize = -1

    def do_GET(self) -> None:
        self._answer("application/json", "{}", status=404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "messages" not in asked:
            self.do_GET()
            return
        assert isinstance(self.server, ScriptedModel)
        message = self.server.message(asked["messages"])
        choice: dict[str, Any] = {"index": 0, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        answer = {"id": "1", "created": 1, "model": "scripted", "choices": [choice]}
        if not asked.get("stream"):
            choice["message"] = message
            self._answer("application/json", json.dumps(answer | {"object": "chat.completion"}))
            return
        calls = [call | {"index": index} for index, call in enumerate(message.get("tool_calls", []))]
        choice["delta"] = message | ({"tool_calls": calls} if calls else {})
        chunk = json.dumps(answer | {"object": "chat.completion.chunk"})
        self._answer("text/event-stream", f"data: {chunk}\n\ndata: [DONE]\n\n")

    def _answer(self, kind: str, text: str, *, status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass
