"""ASGI, as far as it is used: a request's body in, an answer out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from appliance.serving import bodies
from appliance.serving.answers import Answer

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_SMALL = 2**16  # bytes of a body that are sent as one message


class ClientGone(Exception):  # noqa: N818 - an event, not a failure
    """The client closed its connection before the answer."""


async def body(headers: dict[bytes, bytes], receive: Receive, take: Callable[[int], None]) -> bytes:
    """The whole body, room for it taken before it is held."""
    declared = headers.get(b"content-length", b"")
    size = int(declared) if declared.isdigit() else 0
    if size > bodies.MAX_BODY:
        raise bodies.too_large()
    take(size)
    parts: list[bytes] = []
    held = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        held += len(part)
        if held > bodies.MAX_BODY:
            raise bodies.too_large()
        if held > size:
            take(held - size)
            size = held
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


async def hang_up(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def write(send: Send, answer: Answer, *, head: bool) -> None:
    """Send the answer, to a HEAD request without its body."""
    length = sum(map(len, answer.chunks))
    headers = {"Content-Type": answer.media, "Content-Length": str(length), **answer.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    *most, last = _joined(answer.chunks, length) if not head else [b""]
    for chunk in most:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": last})


def _joined(chunks: Sequence[bytes], length: int) -> Sequence[bytes]:
    """A small body in one piece: each costs uvicorn more than copying it does."""
    return chunks if length > _SMALL else [b"".join(chunks)]
