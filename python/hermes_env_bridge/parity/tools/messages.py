"""The tools that send something to a chat: text, speech, and what Yuanbao has of its own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from ..modules import hermes, session
from ..observation import observe, plain
from ..outcome import Observations
from .tool import Tool


def send_message() -> Observations:
    """Ask whether a message may be sent, and whether cron sends it anyway."""
    module = hermes("tools.send_message_tool")
    skip = module._maybe_skip_cron_duplicate_send
    return observe(
        {
            "_get_cron_auto_delivery_target": module._get_cron_auto_delivery_target,
            "_maybe_skip_cron_duplicate_send": lambda: [skip("platform", "Id", thread) for thread in ("Id", None)],
            "_check_send_message": module._check_send_message,
        }
    )


def message_mirror() -> Observations:
    """Send a message through a platform that accepts everything, and see as whose it is mirrored."""
    module, mirror = hermes("tools.send_message_tool"), hermes("gateway.mirror")
    config = hermes("gateway.config")
    enabled = config.PlatformConfig(enabled=True, token="1:x")
    configured = config.GatewayConfig(platforms={config.Platform("telegram"): enabled})

    async def deliver(*arguments: Any, **keywords: Any) -> dict[str, Any]:
        return {"success": True}

    def send() -> dict[str, Any]:
        with (
            mock.patch.object(config, "load_gateway_config", return_value=configured),
            mock.patch.object(module, "_send_to_platform", deliver),
            mock.patch.object(mirror, "mirror_to_session", return_value=True) as mirrored,
        ):
            answer = json.loads(module.send_message_tool({"target": "telegram:12345", "message": "hello"}))
        return {"answer": answer, "mirrored": [plain(call.kwargs) for call in mirrored.call_args_list]}

    return observe({"send to telegram": send})


def speech() -> Observations:
    """Have text spoken by providers that write a file, and see in which format."""
    tool = hermes("tools.tts_tool")

    def speak(text: str, path: str, config: Any) -> str:
        Path(path).write_bytes(b"sound")
        return path

    async def speak_later(text: str, path: str, config: Any) -> str:
        return speak(text, path, config)

    def convert(path: str) -> str:
        return speak("", str(Path(path).with_suffix(".ogg")), None)

    def with_provider(provider: str) -> Callable[[], Any]:
        def generate() -> Any:
            with (
                mock.patch.object(tool, "_load_tts_config", return_value={"provider": provider}),
                mock.patch.multiple(tool, _import_openai_client=mock.DEFAULT, _import_edge_tts=mock.DEFAULT),
                mock.patch.multiple(tool, _generate_openai_tts=speak, _generate_edge_tts=speak_later),
                mock.patch.object(tool, "_convert_to_opus", convert),
            ):
                answer = json.loads(tool.text_to_speech_tool("hello"))
            # The file is named after the second in which it was made.
            return re.sub(r"tts_\d{8}_\d{6}", "tts_<time>", json.dumps(answer))

        return generate

    return observe({provider: with_provider(provider) for provider in ("openai", "edge")})


def yuanbao() -> Observations:
    """Ask the Yuanbao tools for their session and its group."""
    module = hermes("tools.yuanbao_tools")

    async def echo(**keywords: Any) -> dict[str, Any]:
        return keywords

    def send_dm() -> Any:
        with mock.patch.object(module, "send_dm", echo):
            return json.loads(asyncio.run(module._handle_yb_send_dm({"message": "hello"})))

    def in_a_group() -> Any:
        session()._VAR_MAP["HERMES_SESSION_PLATFORM"].set("yuanbao")
        session()._VAR_MAP["HERMES_SESSION_CHAT_ID"].set("group:12")
        return [module._check_yuanbao(), send_dm()]

    return observe(
        {
            "available": module._check_yuanbao,
            "sticker": lambda: asyncio.run(module.send_sticker("any")),
            "direct message": send_dm,
            "in a group": in_a_group,
        }
    )


TOOLS = (
    Tool("send message: cron target, duplicates, gate", send_message),
    Tool("send message: source of the mirrored message", message_mirror),
    Tool("speech: format by platform", speech),
    Tool("yuanbao: group and gate", yuanbao),
)
