import json

from bench.wire import CALLBACK, Door, new_ids

DOOR = Door(8000, "mk_a_b", "")


def parts(request: bytes) -> tuple[list[str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def test_a_callback_names_its_wait_and_its_length() -> None:
    (request,) = DOOR.callbacks([("e1", "c1")])
    head, body = parts(request)
    assert head[0] == f"POST {CALLBACK} HTTP/1.1"
    assert "X-Execution-Id: e1" in head
    assert "X-Correlation-Id: c1" in head
    assert "Authorization: Bearer mk_a_b" in head
    assert f"Content-Length: {len(body)}" in head
    assert json.loads(body)


def test_batches_hold_every_callback_once() -> None:
    ids = new_ids(250)
    requests = DOOR.callback_batches(ids, 100)
    bodies = [json.loads(parts(request)[1])["items"] for request in requests]
    assert [len(items) for items in bodies] == [100, 100, 50]
    sent = [(item["executionId"], item["correlationId"]) for items in bodies for item in items]
    assert sent == ids
