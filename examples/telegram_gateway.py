"""A gateway with two Telegram chats at once. Its tools find their chat by themselves: no chat, message or session is
passed to them, nor to the helpers between.

``python examples/telegram_gateway.py``
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hermes_env_bridge import TelegramRunContext, entry, require_omnius_run_context

MAY_SEND_FILES = {7}  # whoever runs says nothing about what is allowed

outbox: asyncio.Queue[str] = asyncio.Queue()


@dataclass
class Update:
    """What Telegram sends."""

    chat: int
    message: int
    user: int
    text: str


def chat() -> TelegramRunContext:
    """The chat that a tool works for."""
    telegram = require_omnius_run_context().telegram
    assert telegram is not None, "this gateway has Telegram runs alone"
    return telegram


def send(what: str) -> None:
    """Send something to the chat of the run."""
    outbox.put_nowait(f"chat {chat().chat_id}: {what}")


def reply(text: str) -> None:
    """The reply tool."""
    send(f"re {chat().message_id}: {text}")


async def analyse_image(name: str) -> None:
    """The media tool: takes its time in another thread, and looks into the folder of its own chat."""
    send(await asyncio.to_thread(lambda: f"media/{chat().chat_id}/{name} is a cat"))


def send_file(path: str) -> None:
    """The file tool: the target is the chat of the run, the permission is somebody else's word."""
    if chat().user_id in MAY_SEND_FILES:
        send(f"file {path}")
    else:
        reply("no files for you")


async def agent(text: str) -> None:
    """Deep in the program: one task for the tools of a turn."""
    for word in text.split():
        await asyncio.sleep(0.001)
        match word:
            case "image":
                await analyse_image("last.png")
            case "file":
                send_file("report.pdf")
            case _:
                reply(word)


def describe(update: Update) -> TelegramRunContext:
    """The chat of an update."""
    return TelegramRunContext(
        chat_id=update.chat,
        chat_type="private",
        message_id=update.message,
        user_id=update.user,
        session_key=f"telegram:{update.chat}",
        tool_context="private",
    )


@entry.telegram(describe)
async def handle(update: Update) -> None:
    """The entry point: the one place that knows of updates."""
    await asyncio.create_task(agent(update.text))


async def main() -> None:
    """Handle the updates of both chats at once."""
    updates = [Update(1, 10, 7, "hello image file bye"), Update(2, 20, 8, "hi image file thanks")]
    await asyncio.gather(*map(handle, updates))
    while not outbox.empty():
        print(outbox.get_nowait())


if __name__ == "__main__":
    asyncio.run(main())
