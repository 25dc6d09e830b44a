"""Events over HTTP are found again: by what they say, page by page, and by their id."""

from typing import Any

import pytest

from tests.support.events import BATCH, EVENTS, created
from tests.support.problem import assert_problem
from tests.support.product import Product, new_id


def test_events_are_found_by_what_they_say(product: Product) -> None:
    source = new_id()
    common = {"source": source, "time": "2026-01-31T12:00:00Z"}
    batch: list[dict[str, Any]] = [
        {"type": "order.created", "subject": "order:1", "contextData": pairs(a="1", b="2")},
        {"type": "order.paid", "correlationId": "c", "contextData": pairs(a="1")},
        {"type": "shop:orders:order:created", "messageGroup": "g", "data": {"n": 1}},
        {"type": "shop:stock:order:created", "time": "2026-02-01T00:00:00Z"},
    ]
    made = created(product.http.post(BATCH, json=[{**common, **one} for one in batch]))["events"]

    def found(**params: Any) -> list[int]:
        named = {name.strip("_"): value for name, value in params.items()}
        reply = product.http.get(EVENTS, params={"source": source, **named})
        assert reply.status_code == 200, reply.text
        order = [event["id"] for event in made]
        return [order.index(item["id"]) for item in reply.json()["items"]]

    assert found() == [3, 2, 1, 0]
    assert found(type="order.paid") == [1]
    assert found(type="order.*") == [1, 0]
    assert found(type="shop:*:order:*") == [3, 2]
    assert found(subject="order:1") == [0]
    assert found(correlationId="c") == [1]
    assert found(messageGroup="g") == [2]
    assert found(context="a=1") == [1, 0]
    assert found(context=["a=1", "b=2"]) == [0]
    assert found(from_="2026-02-01T00:00:00Z") == [3]
    assert found(to="2026-01-31T14:00:00+02:00") == []
    assert found(to="2026-02-01T00:00:00Z", type="*:*:*:created") == [2]
    (item,) = product.http.get(EVENTS, params={"source": source, "messageGroup": "g"}).json()[
        "items"
    ]
    assert item["dataSize"] == len('{"n":1}')
    assert "data" not in item


def pairs(**context: str) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in context.items()]


def test_a_listing_goes_page_by_page_newest_first(product: Product) -> None:
    source = new_id()
    batch = [{"type": "t", "source": source} for _ in range(5)]
    made = [event["id"] for event in created(product.http.post(BATCH, json=batch))["events"]]
    seen: list[str] = []
    params: dict[str, Any] = {"source": source, "limit": 2}
    while True:
        page = product.http.get(EVENTS, params=params).json()
        seen += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        params["cursor"] = page["nextCursor"]
    assert seen == made[::-1]


@pytest.mark.parametrize(
    "params",
    [
        {"limit": 0},
        {"limit": 501},
        {"cursor": "!"},
        {"context": "region"},
        {"from": "yesterday"},
        {"from": "0.5"},
        {"to": "1750000000"},
        {"from": "2026-01-31T12:00:00"},
        {"type": "a\x00"},
        {"typ": "a"},
    ],
)
def test_a_question_that_cannot_be_meant_is_refused(
    product: Product, params: dict[str, Any]
) -> None:
    assert_problem(product.http.get(EVENTS, params=params), 422, "invalid")


@pytest.mark.parametrize("event_id", ["0000000000000", "nobody", "batch"])
def test_an_event_that_is_not_there_is_404(product: Product, event_id: str) -> None:
    assert_problem(product.http.get(f"{EVENTS}/{event_id}"), 404, "not_found")
