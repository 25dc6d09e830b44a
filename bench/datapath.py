"""Data paths of one record and of a thousand, against joins that are written by hand."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bench.harness import Arm, Measure, Result, interleave, spread
from bench.stage import Stage
from core.records.collection import CollectionDefinition
from core.records.data_path import parse_data_path
from core.records.field import FieldDefinition, FieldType
from core.records.path_batch import PathBatch, PathPlan
from core.records.path_tree import build_tree
from storage.access import keys
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.records.path_query import follow_paths

DEPTHS = (1, 5, 10)
ROOTS = (1, 1_000)
RECORDS = 5_000
FIELDS = 20
Resolve = Callable[[], Awaitable[list[Any]]]


async def run(stage: Stage) -> Result:
    """Time that paths take, compared with joins: at depths 1, 5 and 10, of 1 and 1,000 records."""
    result = Result("datapath", goals={"time / joins, depth 5 of 1,000": "≤ 2.5"})
    dsn = await stage.database()
    pool = await open_pool(PoolOptions(dsn=dsn, name="paths", plan_each_time=True, max_size=1))
    # Joins of this many tables take longer to plan than to run, so they are planned once.
    kept = await open_pool(PoolOptions(dsn=dsn, name="joins", max_size=1))
    try:
        tenant = await keys.create_tenant(pool, "bench")
        await _fill(pool, tenant)
        budget = 0.05 if stage.quick else 0.5
        arms: dict[str, Arm] = {}
        for depth in DEPTHS:
            for roots in ROOTS:
                name = f"depth {depth} of {roots:,}"
                ours, joins = _paths(pool, tenant, depth, roots), _joins(kept, tenant, depth, roots)
                assert await ours() == await joins() == _expected(depth, roots), name
                arms[f"paths, {name}"] = _arm(ours, roots, budget)
                arms[f"joins, {name}"] = _arm(joins, roots, budget)
        found = await interleave(arms, rounds=1 if stage.quick else 7)
    finally:
        await pool.close()
        await kept.close()
        await stage.drop(dsn)
    for name, measures in found.items():
        kind, _, what = name.partition(", ")
        into = result.ours if kind == "paths" else result.peers
        into[name] = {"records_per_second": spread([one.rate for one in measures])}
        if kind == "paths":
            pairs = zip(found[f"joins, {what}"], measures, strict=True)
            result.ratios[f"time / joins, {what}"] = spread([a.rate / b.rate for a, b in pairs])
    return result


def _arm(resolve: Resolve, roots: int, budget: float) -> Arm:
    async def measure() -> Measure:
        rounds, began = 0, time.perf_counter()
        while time.perf_counter() - began < budget:
            await resolve()
            rounds += 1
        return Measure(rounds * roots, time.perf_counter() - began)

    return measure


async def _fill(pool: Pool, tenant: int) -> None:
    """Records of eleven collections in a chain; each leads to another record of the next one."""
    for level in range(max(DEPTHS) + 1):
        records = [
            {"next": _id(level + 1, _next(n)), "value": f"{level}/{n}"}
            | {f"field_{number}": "x" * 20 for number in range(FIELDS)}
            for n in range(RECORDS)
        ]
        await pool.execute(
            """insert into records (tenant_id, collection_no, record_id, version, data,
                                    created_at, updated_at)
               select $1, $2, id, 1, data, now(), now()
                 from unnest($3::text[], $4::jsonb[]) as r (id, data)""",
            tenant,
            level + 1,
            [_id(level, n) for n in range(RECORDS)],
            [msgspec.json.encode(record).decode() for record in records],
        )
    await pool.execute("analyze records")


def _id(level: int, n: int) -> str:
    return f"{level:02}-{n:06}"


def _next(n: int) -> int:
    return n * 7 % RECORDS


def _roots(roots: int) -> list[dict[str, Any]]:
    return [{"next": _id(1, _next(n))} for n in range(roots)]


def _expected(depth: int, roots: int) -> list[str]:
    found = []
    for n in range(roots):
        end = n
        for _ in range(depth):
            end = _next(end)
        found.append(f"{depth}/{end}")
    return found


def _paths(pool: Pool, tenant: int, depth: int, roots: int) -> Resolve:
    names = [f"level-{level}" for level in range(max(DEPTHS) + 1)]
    collections = {
        name: CollectionDefinition(
            name=name,
            fields=(
                FieldDefinition(name="value", type=FieldType.STRING),
                FieldDefinition(name="next", type=FieldType.LOOKUP, target=target),
            ),
        )
        for name, target in zip(names, [*names[1:], names[-1]], strict=True)
    }
    expression = "next." * depth + "value"
    tree = build_tree([parse_data_path(expression)], names[0], collections)
    numbers = {name: number for number, name in enumerate(names, 1)}
    plan, records = PathPlan(tenant, names[0], tree, numbers), _roots(roots)

    async def resolve() -> list[Any]:
        batch = PathBatch()
        batch.add(plan, records)
        return [one[expression] for one in batch.values(await follow_paths(pool, batch))]

    return resolve


def _joins(pool: Pool, tenant: int, depth: int, roots: int) -> Resolve:
    joined, key = "", "s.id"
    for level in range(1, depth + 1):
        joined += f"""
          join records r{level} on r{level}.tenant_id = $1 and r{level}.collection_no = {level + 1}
           and r{level}.record_id = {key} and r{level}.deleted_at is null"""
        key = f"r{level}.data ->> 'next'"
    query = f"""
        select s.n, (r{depth}.data -> 'value')::text
          from unnest($2::integer[], $3::text[]) as s (n, id) {joined}"""
    records = _roots(roots)

    async def resolve() -> list[Any]:
        ids = [record["next"] for record in records]
        found = dict(await pool.fetch(query, tenant, list(range(len(ids))), ids))
        return [msgspec.json.decode(found[n]) for n in range(len(ids))]

    return resolve
