import httpx
import pytest

from cli.shell.client import UnreachableError, wait_path
from cli.shell.problems import ProblemResponseError
from tests.support.command_line import client_of


def test_ids_with_any_character_make_a_path() -> None:
    assert wait_path("a/b", "ü c?", "stream") == "/api/wait-states/a%2Fb/%C3%BC%20c%3F/stream"


async def test_a_parameter_that_was_not_given_is_not_sent() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=dict(request.url.params))

    assert await client_of(answer).get("/x", {"limit": 5, "status": None}) == {"limit": "5"}


async def test_bytes_are_sent_as_they_are_and_documents_as_json() -> None:
    sent: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Content-Type"] == "application/json"
        sent.append(request.content)
        return httpx.Response(204)

    await client_of(answer).post("/x", b'{"price": 1.10}')
    await client_of(answer).post("/x", {"lone": "\ud800"})
    assert sent == [b'{"price": 1.10}', b'{"lone": "\\ud800"}']


async def test_a_refusal_is_a_problem_with_its_code() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(409, json={"detail": "another node", "code": "conflict"})

    with pytest.raises(ProblemResponseError) as caught:
        await client_of(answer).post("/x", {})
    assert (caught.value.status, caught.value.code) == (409, "conflict")


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (httpx.ConnectError("refused"), "Muster is not running at http://127.0.0.1:8000"),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]"), "TLS to"),
        (httpx.ReadTimeout(""), "did not answer in time"),
        (httpx.ReadError(""), "broke: ReadError"),
        (httpx.RemoteProtocolError("cut off"), "broke: cut off"),
    ],
)
async def test_trouble_on_the_way_is_one_sentence(trouble: Exception, told: str) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise trouble

    with pytest.raises(UnreachableError, match=r"^.+\.$") as caught:
        await client_of(answer).get("/x")
    assert told in caught.value.sentence


async def test_nobody_there_names_the_command_that_helps() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(UnreachableError, match="start it with `muster up`"):
        await client_of(answer).delete("/x")


async def test_another_program_on_the_port_is_noticed() -> None:
    with pytest.raises(UnreachableError, match="does not answer like Muster"):
        await client_of(lambda _: httpx.Response(200, text="<html>")).get("/x")


async def test_no_content_is_nothing() -> None:
    assert await client_of(lambda _: httpx.Response(204)).delete("/x") is None
