"""`exec` of a Kubernetes API server for tests: a process whose streams are a websocket's."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from aiohttp import web


async def serve_exec(
    request: web.BaseRequest,
    protocols: Sequence[str],
    command: Sequence[str],
    env: dict[str, str],
    folder: Path,
    wait_if_lost: Callable[[], Awaitable[None]],
) -> web.WebSocketResponse:
    """Runs `command` to its end. wait_if_lost: while no packet gets to its node, or from there."""
    socket = web.WebSocketResponse(protocols=protocols)
    await socket.prepare(request)
    process = await asyncio.create_subprocess_exec(
        *command, env=env, cwd=folder, start_new_session=True, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    feeding = asyncio.create_task(_feed(socket, process, wait_if_lost))
    try:
        await asyncio.gather(
            _send(socket, process.stdout, 1, wait_if_lost),
            _send(socket, process.stderr, 2, wait_if_lost),
        )
        code = await process.wait()
    finally:
        # Also where the server ends before the command: asyncio needs its loop for that.
        feeding.cancel()
        process._transport.close()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    with suppress(ConnectionError):
        await socket.send_bytes(b"\3" + json.dumps(_status(code)).encode())
    await socket.close()
    return socket


def _status(code: int) -> dict[str, object]:
    if code == 0:
        return {"status": "Success"}
    cause = {"reason": "ExitCode", "message": str(code if code >= 0 else 128 - code)}
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}


async def _feed(
    socket: web.WebSocketResponse,
    process: asyncio.subprocess.Process,
    wait_if_lost: Callable[[], Awaitable[None]],
) -> None:
    """What the client sends, to standard input; at the end of the connection that ends, but the
    process goes on."""
    assert process.stdin is not None
    with suppress(ConnectionError):
        async for message in socket:
            await wait_if_lost()
            if message.data[:1] == b"\0":
                process.stdin.write(message.data[1:])
                await process.stdin.drain()
            elif message.data == b"\xff\0":
                process.stdin.close()
    process.stdin.close()


async def _send(
    socket: web.WebSocketResponse,
    stream: asyncio.StreamReader | None,
    channel: int,
    wait_if_lost: Callable[[], Awaitable[None]],
) -> None:
    assert stream is not None
    while data := await stream.read(1 << 16):
        await wait_if_lost()
        with suppress(ConnectionError):
            await socket.send_bytes(bytes([channel]) + data)
