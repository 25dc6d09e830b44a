import json
from typing import Any

import pytest

from cli.shell.problems import parse_problem


def told(status: int, document: Any, retry_after: str | None = None) -> str:
    return parse_problem(status, json.dumps(document).encode(), retry_after).sentence


def test_the_detail_is_the_sentence() -> None:
    document = {"title": "Not Found", "detail": "wait state a:b does not exist", "status": 404}
    assert told(404, document) == "Wait state a:b does not exist."


def test_every_field_at_fault_is_named_with_what_was_given() -> None:
    document = {
        "detail": "the request is not valid",
        "errors": [
            {"field": "data.timeout", "expected": "greater than 0", "got": -1},
            {"field": "data.nope", "expected": "no such field"},
        ],
    }
    assert told(422, document) == (
        "The request is not valid: data.timeout: greater than 0, got -1; data.nope: no such field."
    )


def test_a_fault_that_the_detail_tells_already_is_not_repeated() -> None:
    errors = [{"field": "a", "expected": "wrong"}, {"field": "b", "expected": "2", "got": 1}]
    document = {"detail": "a: wrong (and 1 more)", "errors": errors}
    assert told(422, document) == "Not valid: a: wrong; b: 2, got 1."
    where = [{"field": "data.total", "expected": "a number", "got": "many"}]
    document = {"detail": "data is not as t says: data.total: a number", "errors": where}
    assert told(422, document) == 'Data is not as t says: data.total: a number, got "many".'


def test_a_passing_refusal_says_when_to_come_back() -> None:
    sentence = told(503, {"detail": "the database is away", "requestId": "r1"}, "2")
    assert sentence == "The database is away (try again in 2 s) (request r1)."


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (401, "unauthenticated", "MUSTER_KEY"),
        (403, "forbidden", "muster keys create"),
        (404, "not_found", ""),
    ],
)
def test_what_a_key_can_mend_is_said(status: int, code: str, hint: str) -> None:
    assert hint in told(status, {"detail": "no", "code": code})
    assert hint in told(status, {"detail": "no"})


def test_what_no_key_can_mend_is_said_without_a_hint() -> None:
    assert (
        told(403, {"detail": "it is everybody's", "code": "anchors_pool"}) == "It is everybody's."
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"\xff"])
def test_an_answer_that_is_no_problem_document_is_told_as_such(body: bytes) -> None:
    problem = parse_problem(502, body)
    assert problem.sentence == "The server answered 502 without a reason."
    assert problem.code == ""
