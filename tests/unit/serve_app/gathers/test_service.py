import re

import pytest
from msgspec.structs import replace

from core.access.permissions import Permission
from core.gathers.gather import OnDisconnect
from core.shared.address import Address
from serve_app.gathers.service import (
    cap_timeout,
    continue_trace,
    grace_of,
    grace_of_reader,
)
from serve_app.http.auth import Caller
from tests.unit.serve_app.gathers.fixtures import GENERAL

ADDRESS = Address(7, "g-1", "g-1")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize("wanted", [1, 10_000, 27_000])
def test_a_time_that_can_be_given_is_given_without_a_word(wanted: int) -> None:
    assert cap_timeout(wanted) == (wanted, {})


@pytest.mark.parametrize("wanted", [27_001, 2**31 - 1])
def test_more_time_than_there_is_is_cut_and_told(wanted: int) -> None:
    given, headers = cap_timeout(wanted)
    assert given == 27_000
    assert headers == {"Warning": f'299 muster "timeoutMs {wanted} was capped at 27000"'}


def test_a_trace_goes_on_with_a_span_of_its_own() -> None:
    version, trace, span, flags = continue_trace(f"00-{TRACE}-{SPAN}-00").split("-")
    assert (version, trace, flags) == ("00", TRACE, "00")
    assert re.fullmatch("[0-9a-f]{16}", span)
    assert span != SPAN


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "nonsense",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-01-more",
    ],
)
def test_what_is_no_trace_is_replaced_by_a_new_one(given: str | None) -> None:
    one, two = continue_trace(given), continue_trace(given)
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", one)
    assert TRACE not in one
    assert one != two


def test_a_gather_that_may_be_left_alone_is_not_cancelled() -> None:
    assert grace_of(replace(GENERAL, grace=0.5)) == 0.5
    assert grace_of(replace(GENERAL, on_disconnect=OnDisconnect.DETACH)) is None


@pytest.mark.parametrize(
    ("caller", "ends"),
    [
        (Caller(7, frozenset({Permission.GATHERS_READ})), False),
        (Caller(7, frozenset({Permission.GATHERS_READ, Permission.GATHERS_WRITE})), True),
        (Caller(7, frozenset(), address=ADDRESS), True),
    ],
)
def test_whoever_may_only_look_does_not_end_a_gather_by_leaving(caller: Caller, ends: bool) -> None:
    assert (grace_of_reader(GENERAL, caller) is not None) is ends
    detached = replace(GENERAL, on_disconnect=OnDisconnect.DETACH)
    assert grace_of_reader(detached, caller) is None
