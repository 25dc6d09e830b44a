"""Filters of rules on one record change: generated functions, by the index, and by hand."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from cel_expr_python import cel

from bench.harness import Arm, Measure, Result, interleave, ratios_of, spread
from bench.stage import Stage
from core.expressions.compiler import compile_tree
from core.expressions.filter_index import FilterIndex
from handlers.filters.parser import parse_expression

COUNTS = (10, 100, 1_000)
RECORD = {"status": "s7", "total": 120, "region": "eu", "priority": 3, "customer": "jo"}
FILTER = "status == 's{n}' && total > {limit} && region in ['eu', 'us']"
Passes = Callable[[Mapping[str, Any]], bool]


async def run(stage: Stage) -> Result:
    """Evaluations a second of 10, 100 and 1,000 filters, against Python and the CEL library."""
    goals = {f"generated / by hand, {n:,}": "≥ 0.2" for n in COUNTS}
    goals |= {"by the index / by hand, 1,000": "≥ 5", "generated / CEL library, 100": "≥ 5"}
    result = Result("rules", goals=goals)
    budget = 0.05 if stage.quick else 0.5
    arms: dict[str, Arm] = {}
    for count in COUNTS:
        arms[f"generated, {count:,}"] = _arm(_generated(count), count, budget)
        arms[f"by hand, {count:,}"] = _arm(_by_hand(count), count, budget)
    arms["by the index, 1,000"] = _arm(_by_index(1_000), 1_000, budget)
    arms["CEL library, 100"] = _arm(_by_library(100), 100, budget)
    found = await interleave(arms, rounds=1 if stage.quick else 7)
    for name, measures in found.items():
        kind, _, count_text = name.partition(", ")
        into = result.peers if kind in {"by hand", "CEL library"} else result.ours
        into[name] = {"filters_per_second": spread([one.rate for one in measures])}
        if into is result.ours:
            ratio = ratios_of(measures, found[f"by hand, {count_text}"])
            result.ratios[f"{kind} / by hand, {count_text}"] = ratio
    library = ratios_of(found["generated, 100"], found["CEL library, 100"])
    result.ratios["generated / CEL library, 100"] = library
    return result


def _arm(passing: Callable[[], int], filters: int, budget: float) -> Arm:
    """Count filters for a while; exactly one of them passes each time."""

    async def measure() -> Measure:
        assert passing() == 1, "another number of filters passed"
        rounds, began = 0, time.perf_counter()
        while time.perf_counter() - began < budget:
            passing()
            rounds += 1
        return Measure(rounds * filters, time.perf_counter() - began)

    return measure


def _texts(count: int) -> list[str]:
    return [FILTER.format(n=n, limit=n % 100) for n in range(count)]


def _no_pattern(_: str) -> Callable[[str], bool]:
    raise ValueError("these filters have none")


def _generated(count: int) -> Callable[[], int]:
    functions = [
        compile_tree(parse_expression(text), _no_pattern).evaluate for text in _texts(count)
    ]
    field_of, scope = RECORD.get, {"record": RECORD}
    return lambda: sum(evaluate(field_of, scope) is True for evaluate in functions)


def _by_index(count: int) -> Callable[[], int]:
    trees = [parse_expression(text) for text in _texts(count)]
    index = FilterIndex((compile_tree(tree, _no_pattern).evaluate, tree) for tree in trees)
    field_of, scope = RECORD.get, {"record": RECORD}
    return lambda: sum(evaluate(field_of, scope) is True for evaluate in index.candidates(field_of))


def _by_hand(count: int) -> Callable[[], int]:
    def written(status: str, limit: int) -> Passes:
        return lambda record: (
            record.get("status") == status
            and record.get("total", 0) > limit
            and record.get("region") in {"eu", "us"}
        )

    functions = [written(f"s{n}", n % 100) for n in range(count)]
    return lambda: sum(passes(RECORD) for passes in functions)


def _by_library(count: int) -> Callable[[], int]:
    kinds = {"status": cel.Type.STRING, "total": cel.Type.INT, "region": cel.Type.STRING}
    environment = cel.NewEnv(variables=kinds)
    expressions = [environment.compile(text) for text in _texts(count)]
    values = {name: RECORD[name] for name in kinds}

    def passing() -> int:
        activation = environment.Activation(values)
        return sum(one.eval(activation).value() is True for one in expressions)

    return passing
