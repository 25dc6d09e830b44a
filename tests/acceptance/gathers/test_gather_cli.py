"""`muster gather`, `muster resources` and `muster demo gather` as people and scripts use them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.commands import read, refused
from tests.support.product import Product, new_id, until
from tests.support.resources import running_resources
from tools.demo.gathers.calls import Behaviour
from tools.demo.gathers.resource import DemoResources


@pytest.fixture(scope="module")
def resources() -> Iterator[DemoResources]:
    with running_resources() as running:
        yield running


@pytest.fixture
def clinic(product: Product, resources: DemoResources) -> Iterator[tuple[str, str]]:
    """Two resources that answer by callback, under names that nobody else uses."""
    names = (f"laboratory-{new_id()[:8]}", f"pharmacy-{new_id()[:8]}")
    for number, name in enumerate(names, 11):
        resources.behave(number, None)
        put = product.http.put(f"/api/resources/{name}", json={"url": resources.url_of(number)})
        assert put.status_code == 201, put.text
    yield names
    for name in names:
        assert product.http.delete(f"/api/resources/{name}").status_code == 204


def lines_of(done: "subprocess.CompletedProcess[str]") -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


# Resources


def test_a_resource_from_its_registration_to_its_end(product: Product) -> None:
    name = f"archive-{new_id()[:8]}"
    url = "http://127.0.0.1:9/ask"
    told = product.cli("resources", "put", name, url, "--bearer", "very-secret", "--rate", "60")
    assert told.stdout == f"Resource {name} is registered.\n"
    listed = product.cli("resources", "list").stdout
    assert "very-secret" not in listed + product.cli("resources", "show", name, "--json").stdout
    assert re.search(rf"{name} +{url} +by callback +bearer +\d+ +60", listed)

    words = ("--reply", "direct", "--header", "X-Unit=7", "--read-timeout", "1.5s")
    changed = read(product.cli("resources", "put", name, url, *words, "--json"))
    assert (changed["reply"], changed["readTimeoutMs"], changed["auth"]) == ("direct", 1_500, None)
    shown = read(product.cli("resources", "show", name, "--json"))
    assert shown == changed
    page = product.cli("resources", "show", name).stdout
    assert re.search(r"answers +directly", page)
    assert product.cli("resources", "rm", name).stdout == f"Resource {name} is removed.\n"
    assert refused(product.cli("resources", "rm", name, check=False)).startswith("There is no")
    assert name in refused(product.cli("resources", "show", name, check=False))


def test_resources_are_listed_page_by_page(product: Product, clinic: tuple[str, str]) -> None:
    whole = read(product.cli("resources", "list", "--json"))["items"]
    names = [item["name"] for item in whole]
    assert names == sorted(names)
    assert set(clinic) <= set(names)
    first = product.cli("resources", "list", "--limit", "1").stdout
    assert f"--cursor {names[0]}" in first
    paged = ("--limit", "1", "--cursor", names[0], "--json")
    (second,) = read(product.cli("resources", "list", *paged))["items"]
    assert second == whole[1]


# Gathers


def test_a_gather_streams_to_the_terminal(
    product: Product, clinic: tuple[str, str], resources: DemoResources
) -> None:
    context = {"patientId": "17", "delay": 100}
    done = product.cli("gather", "run", *clinic, "--context", json.dumps(context), "--json")
    started, *answers, summary = lines_of(done)
    assert (started["type"], started["resources"]) == ("started", list(clinic))
    assert {answer["source"]: answer["status"] for answer in answers} == dict.fromkeys(clinic, "ok")
    assert all(len(answer["data"]["notes"]) == 3 for answer in answers)
    assert (summary["type"], summary["completeness"]) == ("summary", "full")
    assert (summary["respondents"], summary["context"]) == (2, context)

    shown = read(product.cli("gather", "show", started["id"], "--json"))
    assert (shown["status"], shown["context"]) == ("completed", context)
    assert {name: one["state"] for name, one in shown["resources"].items()} == dict.fromkeys(
        clinic, "ok"
    )
    again = lines_of(product.cli("gather", "stream", started["id"], "--json"))
    assert again == [*answers, summary]
    too_late = refused(product.cli("gather", "cancel", started["id"], check=False))
    assert "has already ended as completed" in too_late

    calls = [call for call in resources.calls if call.body["correlationId"] == started["id"]]
    assert {call.source for call in calls} == set(clinic)
    assert all(call.headers["X-Correlation-Id"] == started["id"] for call in calls)


def test_what_people_read_of_a_gather(
    product: Product, clinic: tuple[str, str], resources: DemoResources
) -> None:
    resources.behave(12, Behaviour.REJECT)
    done = product.cli("gather", "run", *clinic, check=False)
    assert done.returncode == 1, "one of them did not answer"
    gather_id = re.search(r"gather +(\S+)", done.stdout)
    assert gather_id is not None
    assert re.search(rf"ok +{clinic[0]}  {{", done.stdout)
    assert re.search(rf"REJECTED +{clinic[1]}", done.stdout)
    assert re.search(r"COMPLETE +1 of 2 answered, partial\n$", done.stdout)
    shown = product.cli("gather", "show", gather_id[1]).stdout
    assert re.search(r"status +completed", shown)
    assert re.search(rf"{clinic[1]} +REJECTED", shown)


def test_waiting_for_everyone(
    product: Product, clinic: tuple[str, str], resources: DemoResources
) -> None:
    inline = f"inline={resources.url_of(13)}/direct"
    resources.behave(13, None)
    words = ("--mode", "wait", "--timeout", "10s", "--json")
    document = read(product.cli("gather", "run", *clinic, inline, *words))
    assert (document["completeness"], document["respondents"]) == ("full", 3)
    assert {one["state"] for one in document["resources"].values()} == {"ok"}
    resources.behave(11, Behaviour.SILENT)
    partial = product.cli(
        "gather", "run", *clinic, "--mode", "wait", "--timeout", "0.5s", check=False
    )
    assert partial.returncode == 1
    assert re.search(rf"{clinic[0]} +TIMEOUT", partial.stdout)
    assert "1 of 2 answered, 1 failed, partial" in partial.stdout


def test_a_gather_is_cancelled(
    product: Product, clinic: tuple[str, str], resources: DemoResources
) -> None:
    resources.behave(11, Behaviour.SILENT)
    resources.behave(12, Behaviour.HANG)
    started = read(product.cli("gather", "run", *clinic, "--detach", "--json"))
    gather_id = started["id"]
    assert started["status"] == "waiting"
    mine = until(
        "both are called",
        lambda: [
            calls
            for calls in [[c for c in resources.calls if c.body["correlationId"] == gather_id]]
            if len(calls) == 2
        ],
    )[0]
    assert (
        product.cli("gather", "cancel", gather_id).stdout == f"Gather {gather_id} is cancelled.\n"
    )
    shown = read(product.cli("gather", "show", gather_id, "--json"))
    assert shown["status"] == "cancelled"
    until("the call under way is broken off", lambda: any(call.abandoned for call in mine))
    streamed = product.cli("gather", "stream", gather_id, "--json", check=False)
    assert streamed.returncode == 1
    assert lines_of(streamed)[-1]["status"] == "CANCELLED"
    again = product.cli("gather", "cancel", gather_id)
    assert again.stdout == f"Gather {gather_id} is cancelled.\n", (
        "it stays so, however often it is said"
    )


def test_ctrl_c_cancels_a_gather_that_is_followed(
    product: Product, clinic: tuple[str, str], resources: DemoResources
) -> None:
    resources.behave(11, Behaviour.SILENT)
    with subprocess.Popen(
        [sys.executable, "-m", "cli.main", "gather", "run", *clinic, "--timeout", "27s", "--json"],
        env=os.environ | {"MUSTER_DATA_DIR": str(product.data_dir)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            started, answered = (json.loads(next(process.stdout)) for _ in range(2))
            assert answered["source"] == clinic[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
    path = f"/api/gathers/{started['id']}"
    until("it is cancelled", lambda: product.http.get(path).json()["status"] == "cancelled", 20)


def test_what_is_not_there_is_one_sentence(product: Product) -> None:
    name = f"nobody-{new_id()[:8]}"
    assert f"{name} is not registered" in refused(product.cli("gather", "run", name, check=False))
    for command in ("show", "stream", "cancel"):
        told = refused(product.cli("gather", command, name, check=False))
        assert told == f"Gather {name} does not exist."


# The demo


def urls(product: Product) -> dict[str, str]:
    items = read(product.cli("resources", "list", "--json"))["items"]
    return {item["name"]: item["url"] for item in items}


def test_the_demo_tells_the_story_and_leaves_nothing_behind(product: Product) -> None:
    before = urls(product)
    told = read(product.cli("demo", "gather", "--fast", "--json"))
    endings = {scene["scene"]: (scene["ok"], scene["seen"]) for scene in told["scenes"]}
    assert told["ok"], endings
    assert list(endings) == ["timeline", "everyone", "one-reject", "all-reject", "closed", "twice"]
    timeline = told["scenes"][0]
    assert timeline["statuses"] == {
        "resource-1": "ok",
        "resource-2": "ok",
        "resource-3": "TIMEOUT",
    }
    assert timeline["special"] == ["resource-3 late"]
    assert urls(product) == before


def test_the_demo_puts_back_what_was_registered(product: Product) -> None:
    before = urls(product)
    mine = "http://127.0.0.1:9/mine"
    product.cli("resources", "put", "resource-2", mine, "--rate", "7", "--reply", "direct")
    try:
        shown = product.cli("demo", "gather", "--fast", "--delays", "1,-1,-2").stdout
        assert "→ SSE event: callback (resource-1, 3 notes)" in shown
        assert "→ SSE event: error (resource-3" in shown
        kept = read(product.cli("resources", "show", "resource-2", "--json"))
        assert (kept["url"], kept["ratePerMinute"], kept["reply"]) == (mine, 7, "direct")

        product.cli("resources", "put", "resource-2", mine, "--bearer", "hush")
        told = refused(product.cli("demo", "gather", "--fast", check=False))
        assert told.startswith("resource-2 is registered with headers or a secret")
    finally:
        if "resource-2" in before:
            product.cli("resources", "put", "resource-2", before["resource-2"])
        else:
            product.cli("resources", "rm", "resource-2")
    assert urls(product) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_keeps_its_resources_until_it_is_stopped(
    number: signal.Signals, product: Product
) -> None:
    before = urls(product)
    command = [sys.executable, "-m", "cli.main", "demo", "gather", "--fast", "--delays", "1,2,3"]
    with subprocess.Popen(
        [*command, "--keep"],
        env=os.environ | {"MUSTER_DATA_DIR": str(product.data_dir), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            page = next(line.strip() for line in process.stdout if "/gather#key=" in line)
            assert page == f"{product.url}/gather#key={product.key}"
            curl = next(process.stdout)
            assert curl.strip().startswith(f"curl -s {product.url}/aggregate/journals")
            body = {"patientId": "p", "delays": "1,2,3", "strategy": "WAIT_FOR_EVERYONE"}
            gathered = product.http.post("/aggregate/journals", json=body)
            assert gathered.json()["respondents"] == 3, gathered.text
            process.send_signal(number)
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert urls(product) == before
