"""The OpenAPI document tells the truth: requests made from it meet no 500 and no surprise."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import schemathesis
from schemathesis import engine, hooks
from schemathesis.engine import events

from tests.support.fuzzing import lead_nowhere, make_one_pool
from tests.support.product import BOTH, Product, new_id, until
from tests.support.subscriptions import subscription_body
from tests.support.tenants import another_tenant

SEED = 20_240_613
EXAMPLES = 6
TIMEOUT = 30
STREAMS = [
    "/api/wait-states/{executionId}/{correlationId}/stream",
    "/api/gathers/{id}/stream",
    "/aggregate/stream",
]
# Rules that no schema can tell, such as a quorum within the number of events, refuse requests
# that the schema allows.
BEYOND_SCHEMAS: dict[str, Any] = {"positive_data_acceptance": {"enabled": False}}
# A text that is too long may make the whole body too large, which is told first. Crashes are for
# another check to see.
REFUSED = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429"]
CHECKS = BEYOND_SCHEMAS | {"negative_data_rejection": {"expected-statuses": REFUSED}}
# Each item of a batch is refused on its own, within a 200.
BATCHES = {
    "include-path-regex": "/batch$",
    "checks": {"negative_data_rejection": {"enabled": False}},
}


@dataclass
class Findings:
    """What a run of requests came to."""

    answers: dict[str, Counter[int]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def take(self, event: events.EngineEvent) -> None:
        """Note what an event of the engine tells."""
        if isinstance(event, events.NonFatalError):
            self.failures.append(f"{event.label}: {event.value!r}")
        elif isinstance(event, events.FatalError):
            self.failures.append(repr(event.exception))
        elif isinstance(event, events.ScenarioFinished):
            self._take_scenario(event)

    def _take_scenario(self, event: events.ScenarioFinished) -> None:
        for case_id, interaction in event.recorder.interactions.items():
            operation = event.recorder.cases[case_id].value.operation.label
            if interaction.response is not None:
                counts = self.answers.setdefault(operation, Counter())
                counts[interaction.response.status_code] += 1
        for checks in event.recorder.checks.values():
            for check in checks:
                if check.failure_info is not None:
                    told = f"{check.name}: {check.failure_info.failure}"
                    self.failures.append(f"{event.label}: {told}\n{check.failure_info.code_sample}")


@pytest.fixture(scope="module")
def fuzzed(product: Product) -> Iterator[Product]:
    """A tenant of its own: what is made up here may register, cancel and revoke as it likes."""
    with another_tenant(product) as other, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")  # schemathesis asks the environment
        yield other


def load(fuzzed: Product) -> schemathesis.BaseSchema:
    """The document, with what the run may do."""
    config: dict[str, Any] = {
        "seed": SEED,
        "base-url": fuzzed.url,
        "headers": {"Authorization": f"Bearer {fuzzed.key}"},
        "request-timeout": TIMEOUT,
        "checks": CHECKS,
        "operations": [BATCHES],
        "generation": {
            "max-examples": EXAMPLES,
            "deterministic": True,
            "no-shrink": True,
            "database": "none",
            # Callback tokens that are made up are refused; the key is there already.
            "with-security-parameters": False,
        },
    }
    return schemathesis.openapi.from_url(
        f"{fuzzed.url}/openapi.json", config=schemathesis.Config.from_dict(config)
    )


@contextmanager
def bounded(fuzzed: Product) -> Iterator[None]:
    """Long polls are shortened, the key stays that all requests need, nobody else is called."""
    own = fuzzed.key.split("_")[1]

    def before_call(
        _: schemathesis.HookContext, case: schemathesis.Case[Any], **_options: Any
    ) -> None:
        wait = (case.query or {}).get("wait")
        if isinstance(wait, int | float) and 0 < wait <= 60:
            case.query["wait"] = 0.1
        if (case.path_parameters or {}).get("prefix") == own:
            case.path_parameters["prefix"] = "somebody-else"
        if isinstance(case.body, dict) and _holds(case.body):
            case.body["timeoutMs"] = 50
        lead_nowhere(case.body)
        make_one_pool(case.path, case.body)

    schemathesis.hook(before_call)
    try:
        yield
    finally:
        hooks.unregister(before_call)


def _holds(body: dict[str, Any]) -> bool:
    """Whether a gather is waited for, for as long as it is allowed to take."""
    waits = body.get("mode") == "wait" or str(body.get("strategy")).upper() == "WAIT_FOR_EVERYONE"
    timeout = body.get("timeoutMs", 10_000)
    return waits and isinstance(timeout, int) and 0 < timeout < 2**31


@pytest.fixture(scope="module")
def findings(fuzzed: Product) -> Findings:
    """One run over every operation but streams, which are open for as long as a wait waits."""
    found = Findings()
    with bounded(fuzzed):
        for event in engine.from_schema(load(fuzzed).exclude(path=STREAMS)).execute():
            found.take(event)
    return found


def test_no_request_from_the_document_meets_a_500_or_an_undocumented_answer(
    findings: Findings,
) -> None:
    assert not findings.failures, "\n\n".join(findings.failures)


def test_every_operation_was_called_and_most_were_answered(
    product: Product, findings: Findings
) -> None:
    document = product.http.get("/openapi.json").json()
    operations = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
        if path not in STREAMS
    }
    assert set(findings.answers) == operations
    assert sum(sum(counts.values()) for counts in findings.answers.values()) > 500
    answered = {
        name for name, counts in findings.answers.items() if any(200 <= s < 300 for s in counts)
    }
    assert len(answered) > len(operations) / 2, findings.answers


def test_the_key_outlived_the_run(fuzzed: Product, findings: Findings) -> None:
    assert findings.answers
    assert fuzzed.http.get("/api/wait-states").status_code == 200


def test_the_whole_story_of_a_wait_conforms(fuzzed: Product) -> None:
    """Answers with every part filled, which made-up requests seldom reach."""
    schema = load(fuzzed)
    wait = fuzzed.register(BOTH | {"timeout": 1, "onTimeout": "continue_with_partial"})
    ids = {name: wait[name] for name in ("executionId", "correlationId")}
    fuzzed.event(wait, topic="another")
    fuzzed.callback(wait, {"a": [1, None, "ä"]})
    fuzzed.callback(wait, {"again": True})
    assert fuzzed.show(wait, wait=30)["partial"]
    fuzzed.event(wait)
    one = "/api/wait-states/{executionId}/{correlationId}"
    paths = {f"{one}{rest}": ids for rest in ("", "/log", "/explain", "/stream")}
    lists = ("wait-states", "inbox", "dead-letters", "keys", "status", "kafka")
    paths |= {f"/api/{name}": {} for name in lists}
    for path, parameters in paths.items():
        case = schema[path]["GET"].Case(path_parameters=parameters)
        reply = case.call_and_validate(headers={"Authorization": f"Bearer {fuzzed.key}"})
        assert reply.status_code == 200, path


def calls(fuzzed: Product) -> Callable[..., Any]:
    """Requests that succeed, each answered as the document says; the documents they get."""
    schema = load(fuzzed)

    def call(method: str, path: str, body: Any = None, **parameters: str) -> Any:
        options = {} if body is None else {"body": body, "media_type": "application/json"}
        case = schema[path][method].Case(path_parameters=parameters, **options)
        reply = case.call_and_validate(headers={"Authorization": f"Bearer {fuzzed.key}"})
        assert reply.status_code in {200, 201, 202, 204}, (method, path, reply.text)
        return None if path.endswith("/stream") or not reply.content else reply.json()

    return call


def test_the_whole_story_of_a_gather_conforms(fuzzed: Product) -> None:
    call = calls(fuzzed)
    # It answers directly, and counts as accepting where a callback is expected.
    resource = {"url": f"{fuzzed.url}/actuator/health/liveness", "method": "GET"}
    secrets = {"auth": {"type": "bearer", "token": "secret"}, "headers": {"X-Key": "secret"}}
    for name in ("resource-1", "resource-2", "resource-3"):
        call("PUT", "/api/resources/{name}", resource | secrets, name=name)
    call("GET", "/api/resources/{name}", name="resource-1")
    call("GET", "/api/resources")
    inline = [resource | {"name": "right"}, {"name": "wrong", "url": f"{fuzzed.url}/nowhere"}]
    asked = {"resources": inline, "timeoutMs": 5_000, "context": {"a": 1}}
    ended = call("POST", "/api/gathers", asked | {"mode": "wait"})
    assert (ended["respondents"], ended["errors"]) == (1, 1)
    begun = call("POST", "/api/gathers", {"resources": ["resource-1"], "timeoutMs": 20_000})
    for method in ("GET", "DELETE", "GET"):
        call(method, "/api/gathers/{id}", id=begun["id"])
    call("GET", "/api/gathers/{id}/stream", id=begun["id"])
    journals = {"patientId": "p", "timeoutMs": 100}
    begun = call("POST", "/aggregate/journals", journals)
    callback = {"source": "resource-1", "correlationId": begun["correlationId"], "status": "ok"}
    call("POST", "/aggregate/callback", callback)
    everyone = call("POST", "/aggregate/journals", journals | {"strategy": "WAIT_FOR_EVERYONE"})
    assert everyone["status"] == "COMPLETE"


def test_the_whole_story_of_an_event_type_conforms(fuzzed: Product) -> None:
    call = calls(fuzzed)
    types, one = "/api/event-types", "/api/event-types/{code}"
    code = f"shop:s{new_id()[:12]}:order:created"
    made = call("POST", types, {"code": code, "name": "x", "description": "y"})
    kept = call("POST", "/api/schemas", {"name": "x", "content": {}, "eventTypeId": code})
    call("POST", f"{one}/schemas", {"version": "1.0", "schemaId": kept["id"]}, code=code)
    call("PUT", f"{one}/schemas/{{version}}", {"schema": {}}, code=code, version="1.0")
    for verb in ("finalise", "deprecate"):
        call("POST", f"{one}/schemas/{{version}}/{verb}", code=made["id"], version="1.0")
    call("GET", f"{one}/schemas/{{version}}", code=code, version="1.0")
    call("PATCH", one, {"validation": "warn", "description": None}, code=code)
    for path in ("", "/filters/applications", "/filters/subdomains", "/filters/aggregates"):
        call("GET", types + path)
    call("GET", "/api/schemas")
    call("PUT", "/api/schemas/{schemaId}", {"name": "z", "content": {}}, schemaId=kept["id"])
    for method in ("GET", "DELETE"):
        call(method, "/api/schemas/{schemaId}", schemaId=kept["id"])
    call("POST", f"{one}/archive", code=code)
    version = {"version": "1.0", "schema": {}, "status": "CURRENT"}
    declared = {"code": "story:a:b:c", "name": "x", "versions": [version]}
    sync = "/api/applications/{application}/event-types/sync"
    call("POST", sync, {"eventTypes": [declared]}, application="story")
    gone = call("POST", sync, {"eventTypes": [], "removeUnlisted": True}, application="story")
    assert len(gone["kept"]) == 1
    for method in ("GET", "DELETE"):
        call(method, one, code=code)


def test_the_whole_story_of_a_subscription_conforms(fuzzed: Product) -> None:
    call = calls(fuzzed)
    subscriptions, one = "/api/subscriptions", "/api/subscriptions/{id}"
    secrets = {"auth": {"type": "bearer", "token": "secret"}, "headers": {"X-Key": "secret"}}
    whole = subscription_body(
        description="x", queue="q", filter="data.a == 1", mode="NEXT_ON_ERROR", **secrets
    )
    whole |= {"customConfig": [{"key": "a", "value": "b"}]}
    made = call("POST", subscriptions, whole)
    call("GET", subscriptions)
    call("PATCH", one, {"filter": None, "auth": None}, id=made["code"])
    call("PUT", one, whole, id=made["id"])
    for verb in ("pause", "resume"):
        call("POST", f"{one}/{verb}", id=made["code"])
    call("POST", f"{one}/secret/rotate", {"overlapSeconds": 60}, id=made["code"])
    assert len(call("GET", f"{one}/secret", id=made["code"])["secrets"]) == 2
    call("POST", "/api/webhook-secret/rotate", {})
    call("GET", "/api/webhook-secret")
    sync = "/api/applications/{application}/subscriptions/sync"
    call("POST", sync, {"subscriptions": [subscription_body()]}, application="story")
    call("POST", sync, {"subscriptions": [], "removeUnlisted": True}, application="story")
    for method in ("GET", "DELETE"):
        call(method, one, id=made["code"])


def test_the_whole_story_of_a_dispatch_pool_conforms(fuzzed: Product) -> None:
    call = calls(fuzzed)
    pools, one = "/api/dispatch-pools", "/api/dispatch-pools/{id}"
    made = call("POST", pools, {"code": f"pool-{new_id()}", "name": "x", "rateLimit": 60})
    call("GET", pools)
    call("PATCH", one, {"rateLimit": None}, id=made["code"])
    call("PUT", one, {"name": "y", "concurrency": 3}, id=made["id"])
    for verb in ("suspend", "activate"):
        call("POST", f"{one}/{verb}", id=made["code"])
    sync = "/api/applications/{application}/dispatch-pools/sync"
    declared = {"pools": [{"code": "story", "name": "x"}], "dryRun": True}
    assert call("POST", sync, declared, application="story")["created"] == ["story"]
    for method in ("GET", "DELETE", "GET"):
        call(method, one, id=made["code"])


def test_the_whole_story_of_a_collection_conforms(fuzzed: Product) -> None:
    call = calls(fuzzed)
    many, one = "/control/collections", "/control/collections/{id}"
    kind = {"name": "kind", "type": "PICKLIST", "values": ["a", "b"], "default": "a"}
    fields = [{"name": "total", "type": "CURRENCY", "min": 0, "indexed": True}, kind]
    made = call("POST", many, {"name": f"c-{new_id()}", "fields": fields, "note": "first"})
    call("GET", many)
    for name in (made["id"], made["name"]):
        assert call("GET", one, id=name) == made
    assert call("POST", f"{one}/preview", {"fields": [kind]}, id=made["name"])["breaking"]
    call("GET", f"{one}/versions", id=made["name"])
    call("GET", f"{one}/versions/{{version}}", id=made["name"], version="1")
    call("DELETE", one, id=made["name"])
    call("POST", f"{one}/activate", id=made["name"])


def test_the_whole_story_of_a_delivery_conforms(fuzzed: Product) -> None:
    schema = load(fuzzed)

    def call(method: str, path: str, body: Any = None, query: Any = None, **parameters: str) -> Any:
        options = {} if body is None else {"body": body, "media_type": "application/json"}
        case = schema[path][method].Case(path_parameters=parameters, query=query or {}, **options)
        reply = case.call_and_validate(headers={"Authorization": f"Bearer {fuzzed.key}"})
        assert reply.status_code in {200, 201}, (method, path, reply.text)
        return reply.json()

    many = "/api/dispatch-jobs"
    one = f"{many}/{{jobId}}"
    sample = f"{fuzzed.url}/api/sample/webhook"
    job: dict[str, Any] = {"source": "s", "code": "c", "payload": {"a": [1, None, "ä"]}}
    job |= {"messageGroup": "conforming:group:ä", "mode": "BLOCK_ON_ERROR", "maxRetries": 1}
    job |= {"headers": {"X-A": "1"}, "metadata": [{"key": "k", "value": "v"}]}
    (wrong,) = call("POST", f"{many}/batch", [job | {"targetUrl": f"{sample}/fail-permanent"}])[
        "jobs"
    ]
    held = call("POST", many, job | {"targetUrl": sample, "delaySeconds": 3_600})
    until("it failed", lambda: call("GET", one, jobId=wrong["id"])["status"] == "ERROR")
    assert call("GET", f"{one}/attempts", jobId=wrong["id"])["items"]
    queries: list[dict[str, Any]] = [
        {"status": ["ERROR", "QUEUED"]},
        {"page": 0, "size": 1},
        {"limit": 1},
    ]
    for query in queries:
        assert call("GET", many, query=query)["items"]
    call("GET", f"{many}/filter-options")
    call("GET", f"{many}/event/{{eventId}}", eventId=wrong["id"])
    group = {"name": "conforming:group:ä"}
    shown = call("GET", "/api/dispatch-groups/{name}", **group)
    assert [one["id"] for one in shown["jobs"]] == [wrong["id"], held["id"]]
    for path in ("/monitoring/circuit-breakers", "/monitoring/pool-stats", "/monitoring/health"):
        call("GET", path)
    call("POST", "/api/dispatch-groups/{name}/park", {"reason": "r"}, **group)
    assert call("GET", "/api/dispatch-groups", query={"state": "parked"})["items"]
    call("POST", "/api/dispatch-groups/{name}/skip", **group)
    call("POST", "/api/dispatch-groups/{name}/resume", **group)
    call("POST", f"{one}/requeue", jobId=wrong["id"])
    refused = call("POST", f"{many}/complete", {"ids": [held["id"]]})["refused"]
    assert refused == [{"id": held["id"], "result": "not_failed", "status": "QUEUED"}]
    call("POST", f"{many}/recover", {"since": "2020-01-01T00:00:00Z"})
    call("POST", f"{one}/cancel", jobId=held["id"])


def test_the_document_is_complete(product: Product) -> None:
    document = product.http.get("/openapi.json").json()
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text, f"{name} is used nowhere"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["operationId"], where
            assert operation["description"], where
            assert operation["tags"], where
            assert any(status.startswith("2") for status in operation["responses"]), where


def test_the_page_shows_the_document_and_fetches_nothing_else(product: Product) -> None:
    page = httpx.get(f"{product.url}/docs", trust_env=False)
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert "openapi.json" in page.text
    assert "http://" not in page.text.replace("http://www.w3.org", "")
    assert "https://" not in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
