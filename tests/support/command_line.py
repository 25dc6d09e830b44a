"""The command line without a network: requests end in a function of the test."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from cli.commands import app
from cli.shell import context
from cli.shell.client import Client
from cli.shell.instance import Instance

Handler = Callable[[httpx.Request], httpx.Response]
URL = "http://127.0.0.1:8000"
NOT_THERE = httpx.Response(404, json={"detail": "there is no such thing"})


def client_of(handler: Handler, instance: Instance | None = None) -> Client:
    http = httpx.AsyncClient(base_url=URL, transport=httpx.MockTransport(handler))
    return Client(instance or Instance(URL), http)


@dataclass
class FakeMuster:
    """Answers by path, and remembers what was asked."""

    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers[f"{request.method} {request.url.path}"]
        if isinstance(answer, list):  # one after the other
            answer = answer.pop(0)
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def run(self, *words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, list(words), input=stdin, env=_NO_SETTINGS)


_NO_SETTINGS = {"MUSTER_URL": "", "MUSTER_KEY": "", "MUSTER_DATA_DIR": "", "COLUMNS": "120"}


def sent(muster: FakeMuster, place: int = -1) -> Any:
    """What a request had in its body: the last one, unless said otherwise."""
    return json.loads(muster.requests[place].content)


@pytest.fixture
def muster(monkeypatch: pytest.MonkeyPatch) -> FakeMuster:
    made = FakeMuster()

    @asynccontextmanager
    async def connect(instance: Instance) -> AsyncIterator[Client]:
        made.instances.append(instance)
        yield client_of(made.answer, instance)

    monkeypatch.setattr(context, "connect", connect)
    return made
