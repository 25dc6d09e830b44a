"""The scenarios of the record demo: what is written, and what has to be there after."""

import asyncio
from collections.abc import Sequence

from tools.demo.records.run import RecordRun
from tools.demo.scenario import Script

SCENARIOS: Script[RecordRun] = Script()
_BATCH = 1_000


@SCENARIOS.scenario(
    "save",
    "A record is completed as it is saved",
    "Defaults, a number from a series and a formula are filled in before the commit.",
    "status open",
    "price 2.5",
    "version 1",
)
async def save(run: RecordRun) -> Sequence[str]:
    made = await run.create(customer="Jo", total=10, pieces=4)
    run.panel.note("completed", f"it got number {made['number']}")
    return [f"status {made['status']}", f"price {made['price']}", f"version {made['version']}"]


@SCENARIOS.scenario(
    "errors",
    "All that is wrong is told at once",
    "One request with an unknown field, a negative total and no customer; a formula by zero.",
    "422 for the fields",
    "422 for the formula: division by zero",
)
async def errors(run: RecordRun) -> Sequence[str]:
    wrong = await run.refused(run.create(custommer="Jo", total=-1))
    divided = await run.refused(run.create(customer="Jo", total=1, pieces=0))
    reason = "division by zero" if "division by zero" in divided["sentence"] else "something else"
    return [f"{wrong['status']} for the fields", f"{divided['status']} for the formula: {reason}"]


@SCENARIOS.scenario(
    "unique",
    "Two want the same code at the same moment",
    "Ten requests create an order with one code that only one order may have.",
    "1 saved",
    "9 refused with 409",
)
async def unique(run: RecordRun) -> Sequence[str]:
    async def attempt(number: int) -> int:
        found = await run.refused(run.create(customer=f"c{number}", total=1, code="the-one"))
        return int(found["status"])

    statuses = await asyncio.gather(*(attempt(number) for number in range(10)))
    return [f"{statuses.count(200)} saved", f"{statuses.count(409)} refused with 409"]


@SCENARIOS.scenario(
    "versions",
    "Nobody overwrites what he has not seen",
    "Two clerks change version 1; the history keeps what each record was.",
    "the second is refused with 412",
    "version 1 had total 10, version 2 has 20",
    "changed: price, total",
)
async def versions(run: RecordRun) -> Sequence[str]:
    made = await run.create(customer="Jo", total=10)
    await run.change(made["id"], version=1, total=20)
    late = await run.refused(run.change(made["id"], version=1, total=30))
    old = await run.muster.get(run.path(made["id"]), {"asOf": 1})
    new = await run.muster.get(run.path(made["id"]))
    history = await run.muster.get(run.path(made["id"], "history"))
    changed = ", ".join(history["items"][0]["changedFields"])
    return [
        f"the second is refused with {late['status']}",
        f"version 1 had total {old['total']}, version 2 has {new['total']}",
        f"changed: {changed}",
    ]


@SCENARIOS.scenario(
    "batch",
    "A thousand in one request, one of them wrong",
    "The others are saved; a listing in the order of an indexed field reads them page by page.",
    "999 saved, 1 refused at index 500",
    "1000 totals in order",
)
async def batch(run: RecordRun) -> Sequence[str]:
    items = [
        {"op": "create", "fields": {"customer": "batch", "total": 10_000 + number}}
        for number in range(_BATCH)
    ]
    items[500]["fields"] = {"customer": "batch", "total": "much"}
    reply = await run.muster.post(run.path("batch"), {"items": items})
    run.panel.note("taken", f"{reply['saved']} saved, {reply['failed']} refused")
    refused = [one["index"] for one in reply["items"] if "problem" in one]
    await run.create(customer="batch", total=10_500)
    listed = await run.list({"sort": "-total", "limit": 250, "total.gte": 10_000})
    totals = [one["total"] for one in listed]
    run.panel.note("received", f"{len(totals):,} records on {len(totals) // 250} pages")
    order = "in order" if totals == sorted(totals, reverse=True) else "in disorder"
    return [
        f"{reply['saved']} saved, {len(refused)} refused at index {refused[0]}",
        f"{len(totals)} totals {order}",
    ]


@SCENARIOS.scenario(
    "details",
    "A record goes with all that belongs to it",
    "An order and its fifty lines are deleted in one transaction.",
    "50 lines before, 0 after",
    "a line for an order that is gone: 422",
)
async def details(run: RecordRun) -> Sequence[str]:
    order = (await run.create(customer="Jo", total=1))["id"]
    lines = [{"op": "create", "fields": {"order": order}} for _ in range(50)]
    await run.muster.post(run.path("batch", of_lines=True), {"items": lines})
    before = len(await run.list({"order": order}, of_lines=True))
    await run.muster.delete(run.path(order))
    after = len(await run.list({"order": order}, of_lines=True))
    run.panel.note("completed", "the order is deleted")
    late = await run.refused(run.muster.post(run.path(of_lines=True), {"order": order}))
    return [
        f"{before} lines before, {after} after",
        f"a line for an order that is gone: {late['status']}",
    ]
