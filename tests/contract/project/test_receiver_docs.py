"""The page for receivers: its request verifies with its secrets, and its code verifies ours."""

import json
import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from core.dispatch.attempt import pause_after
from core.dispatch.claim import DeliveryProfile
from core.dispatch.envelope import body_of, headers_of
from core.dispatch.signature import format_secret, parse_secret, sign_standard
from core.dispatch.subscription import Signature
from core.events.cloud_event import EventStamp, read_binary
from tests.support.deliveries import delivery

PAGE = (Path(__file__).parents[3] / "docs/how-to/receive-webhooks.md").read_text()
LIBRARY, BY_HAND, CLASSIC = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NEW, OLD = map(parse_secret, re.findall(r"`(whsec_\S+)`", PAGE))
Check = Callable[[str, dict[str, str], bytes], bool]


def shown() -> tuple[dict[str, str], bytes]:
    (request,) = re.findall(r"```http\n(.*?)\n```", PAGE, re.DOTALL)
    head, _, body = request.partition("\n\n")
    return dict(line.split(": ", 1) for line in head.lower().split("\n")[1:]), body.encode()


def test_the_request_is_one_of_ours_and_verifies() -> None:
    headers, body = shown()
    signed = sign_standard(
        [NEW, OLD], headers["webhook-id"].upper(), int(headers["webhook-timestamp"]), body
    )
    assert signed["webhook-signature"] in PAGE
    ours = headers_of(delivery(), DeliveryProfile(secrets=(NEW,)), body, "application/json", 1.0)
    arrives = {"host", "user-agent", "accept", "accept-encoding", "content-length"}
    assert headers.keys() - arrives == {name.lower() for name in ours}
    assert read_binary(headers, body, EventStamp(1, 2e9, str)).subject == "order/4711"
    assert int(headers["content-length"]) == len(body)


def test_the_envelope_has_what_ours_has() -> None:
    (envelope,) = re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL)
    assert json.loads(envelope).keys() == json.loads(body_of(delivery(data_only=False))[0]).keys()


@pytest.mark.parametrize(
    ("code", "form", "secret"),
    [
        (LIBRARY, Signature.STANDARD, NEW),
        (LIBRARY, Signature.STANDARD, OLD),
        (BY_HAND, Signature.STANDARD, NEW),
        (BY_HAND, Signature.STANDARD, OLD),
        (CLASSIC, Signature.CLASSIC, OLD),
    ],
)
def test_its_code_verifies_what_we_sign(code: str, form: Signature, secret: bytes) -> None:
    names: dict[str, Check] = {}
    exec(code, names)
    is_genuine = names["is_genuine"]
    body = b'{"n": 1}'
    profile = DeliveryProfile(secrets=(NEW, OLD), signature=form)
    sent = headers_of(delivery(), profile, body, "application/json", time.time())
    headers = {name.lower(): value for name, value in sent.items()}
    assert is_genuine(format_secret(secret), headers, body)
    assert not is_genuine(format_secret(b"x" * 32), headers, body)
    assert not is_genuine(format_secret(secret), headers, body + b" ")
    if form is Signature.STANDARD:
        old = headers_of(delivery(), profile, body, None, time.time() - 1_000)
        assert not is_genuine(format_secret(secret), {k.lower(): v for k, v in old.items()}, body)


def test_its_ladder_is_ours() -> None:
    (first, rest) = re.findall(r"waits (\d+) s, then ([\d, ]+and from then on \d+) s", PAGE)[0]
    told = [int(first), *map(int, re.findall(r"\d+", rest))]
    assert told == [pause_after(attempt, 1.0) for attempt in range(1, len(told) + 1)]
    assert pause_after(len(told) + 5, 1.0) == told[-1]
    assert all(before < after for before, after in pairwise(told))
