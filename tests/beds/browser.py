"""A headless Chromium, driven through its pipe: opens a page, and says what the page did and
shows."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PATIENCE_S = 60.0
_IN, _OUT = 3, 4  # the file descriptors that Chromium reads and writes with --remote-debugging-pipe


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


class Browser:
    """events: (method, parameters) of everything that the page was reported to do."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def open(
        self, page: Path, *, width: int = 1200, dark: bool = False, printed: bool = False
    ) -> None:
        """Until the page has loaded. dark: the reader prefers that. printed: as on paper."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call(
            "Emulation.setEmulatedMedia", media="print" if printed else "screen", features=features
        )
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.events.clear()
        self.call("Page.navigate", url=page.absolute().as_uri())
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """Of JavaScript, in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """What a console would show of the page."""
        entries = [
            each["entry"]["text"] for method, each in self.events if method == "Log.entryAdded"
        ]
        return entries + [
            str(each)
            for method, each in self.events
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        ]

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        return [
            each["request"]["url"]
            for method, each in self.events
            if method == "Network.requestWillBeSent"
        ]

    def picture(self, target: Path, *, width: int, height: int) -> None:
        """The page from its top, as a PNG. width, height: in pixels."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        target.write_bytes(base64.b64decode(data))

    def call(self, method: str, **params: Any) -> Any:
        """The result of a command of the DevTools protocol. Raises RuntimeError."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": params} | (
            {"sessionId": self._session} if self._session else {}
        )
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._back], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._back, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError(
                    "Chromium does not answer" if not ready else "Chromium has ended"
                )
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """folder: for its profile. Without the sandbox, which needs more rights than a container has:
    it opens only files from here."""
    program = chromium()
    assert program is not None
    down, up = os.pipe(), os.pipe()
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--remote-debugging-pipe",
    ]
    shell = f'exec "$@" {_IN}<&{down[0]} {_OUT}>&{up[1]}'
    command = ["bash", "-c", shell, "bash", program, *flags, f"--user-data-dir={folder}"]
    log = (folder.parent / "chromium.log").open("wb")
    process = subprocess.Popen(command, pass_fds=(down[0], up[1]), stdout=log, stderr=log)
    os.close(down[0])
    os.close(up[1])
    try:
        yield Browser(down[1], up[0])
    finally:
        os.close(down[1])  # it ends when its pipe does
        os.close(up[0])
        try:
            process.wait(_PATIENCE_S)
        finally:
            process.kill()
            log.close()
