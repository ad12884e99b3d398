"""One fork server of each kind for all tests of the folder: their start is the expensive part."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fork_client import ForkServer, subreaper
from servers import Ports


@pytest.fixture(autouse=True)
def _adopting() -> Iterator[None]:
    with subreaper():
        yield


def _serving(preload: str, *options: str) -> Iterator[ForkServer]:
    server = ForkServer(preload, options)
    assert server.first_message.get("ready"), server.first_message
    yield server
    assert server.close() == 0


@pytest.fixture(scope="session")
def plain() -> Iterator[ForkServer]:
    yield from _serving("nothing", "-I", "-S")


@pytest.fixture(scope="session")
def library() -> Iterator[ForkServer]:
    yield from _serving("library")


@pytest.fixture(scope="session")
def tensorflow() -> Iterator[ForkServer]:
    yield from _serving("tensorflow")


@pytest.fixture
def ports() -> Iterator[Ports]:
    ports = Ports()
    yield ports
    ports.close()
