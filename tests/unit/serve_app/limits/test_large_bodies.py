"""Beside other tenants, one tenant's large bodies are worked on one after another."""

import asyncio

import pytest

from core.shared.errors import OverloadedError
from serve_app.limits import large_bodies
from serve_app.limits import load_limiter as gate_module
from serve_app.limits.load_limiter import LoadLimiter, RequestSlot
from settings.ingress import IngressOptions

ACME, UMBRELLA = 1, 2
LONG = 60.0


def entered(gate: LoadLimiter, tenant: int) -> RequestSlot:
    passage = gate.admit()
    passage.assign_tenant(tenant)
    return passage


def contested() -> LoadLimiter:
    """A gate at which two tenants have asked."""
    gate = LoadLimiter(IngressOptions())
    entered(gate, UMBRELLA).release()
    entered(gate, ACME).release()
    return gate


async def begun(*passages: RequestSlot) -> list["asyncio.Task[None]"]:
    tasks = [asyncio.create_task(one.begin_large_body(LONG)) for one in passages]
    await settled()
    return tasks


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_alone_a_tenant_has_as_many_at_once_as_it_likes() -> None:
    gate = LoadLimiter(IngressOptions())
    waiting = await begun(*(entered(gate, ACME) for _ in range(10)))
    assert all(task.done() for task in waiting)


async def test_once_nobody_else_has_asked_for_a_while_it_is_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = contested()
    monkeypatch.setattr(gate_module, "CONTESTED_FOR", 0.0)
    entered(gate, UMBRELLA).release()
    waiting = await begun(*(entered(gate, ACME) for _ in range(10)))
    assert all(task.done() for task in waiting)


async def test_beside_others_they_take_turns_in_their_order_and_others_have_their_own() -> None:
    gate = contested()
    mine = [entered(gate, ACME) for _ in range(3)]
    waiting = await begun(*mine)
    assert [task.done() for task in waiting] == [True, False, False]
    other = await begun(entered(gate, UMBRELLA))
    assert other[0].done()
    mine[0].release()
    await settled()
    assert [task.done() for task in waiting] == [True, True, False]
    mine[1].release()
    await settled()
    assert waiting[2].done()


async def test_who_gives_up_waiting_has_no_turn() -> None:
    gate = contested()
    mine = [entered(gate, ACME) for _ in range(3)]
    waiting = await begun(*mine)
    waiting[1].cancel()
    await settled()
    mine[1].release()
    mine[0].release()
    await settled()
    assert waiting[2].done()
    mine[2].release()
    assert (await begun(entered(gate, ACME)))[0].done()


async def test_a_turn_that_comes_too_late_for_its_waiter_is_passed_on() -> None:
    gate = contested()
    mine = [entered(gate, ACME) for _ in range(3)]
    waiting = await begun(*mine)
    mine[0].release()
    waiting[1].cancel()  # in the moment in which it is its turn
    await settled()
    assert waiting[2].done()


async def test_who_waits_for_too_long_is_told_to_come_again() -> None:
    gate = contested()
    await entered(gate, ACME).begin_large_body(LONG)
    with pytest.raises(OverloadedError, match=r"large bodies .* try again"):
        await entered(gate, ACME).begin_large_body(0.01)


async def test_who_takes_long_or_is_held_open_keeps_its_turn_from_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = contested()
    first, second, third, fourth = (entered(gate, ACME) for _ in range(4))
    monkeypatch.setattr(large_bodies, "MAX_TURN_SECONDS", 0.0)
    waiting = await begun(first)
    monkeypatch.setattr(large_bodies, "MAX_TURN_SECONDS", LONG)
    waiting += await begun(second, third, fourth)
    await asyncio.wait_for(waiting[1], LONG)  # the first has had its time
    first.release()
    await settled()
    assert not waiting[2].done()  # and ends only once
    second.count_as_stream()
    await settled()
    assert [task.done() for task in waiting] == [True, True, True, False]
