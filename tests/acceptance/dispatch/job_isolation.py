"""Deliveries, groups and warnings of one tenant, as another meets them."""

from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import quote

from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.pool import Pool
from tests.support.problem import assert_problem
from tests.support.product import Product, new_id
from tests.support.tenants import in_database

JOBS, GROUPS, MONITORING = "/api/dispatch-jobs", "/api/dispatch-groups", "/monitoring"
LATER = 30 * 86_400


class Theirs(Protocol):
    """Whatever else they have, somebody owns it."""

    @property
    def owner(self) -> Product:
        """Who may look at it."""


Check = Callable[[Product, Any], None]


class _Job:
    """A job that waits in a group of its own, and what its owner sees of it."""

    def __init__(self, owner: Product) -> None:
        self.owner = owner
        self.mark = f"theirs-{new_id()}"
        self.target = f"http://127.0.0.1:9/{self.mark}"
        body = {
            "source": self.mark,
            "code": self.mark,
            "targetUrl": self.target,
            "payload": {"secret": self.mark},
            "messageGroup": self.mark,
            "mode": "BLOCK_ON_ERROR",
            "idempotencyKey": self.mark,
            "delaySeconds": LATER,
        }
        made = owner.http.post(JOBS, json=body)
        assert made.status_code == 201, made.text
        self.body = body
        self.document = made.json()
        self.id = self.document["id"]

    def is_untouched(self) -> bool:
        """Whether it is as it was posted, and its group free."""
        shown = self.owner.http.get(f"{JOBS}/{self.id}").json()
        group = self.owner.http.get(f"{GROUPS}/{self.mark}").json()
        same = all(shown[name] == value for name, value in self.document.items())
        return same and group["parked"] is None


def _posts_its_own(rest: str = "") -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        job = _Job(theirs.owner)
        reply = other.http.post(JOBS + rest, json=[job.body] if rest else job.body)
        assert reply.status_code == 201
        mine = reply.json()["jobs"][0] if rest else reply.json()
        assert mine["id"] != job.id
        assert theirs.owner.http.get(f"{JOBS}/{mine['id']}").status_code == 404
        assert other.http.post(f"{JOBS}/{mine['id']}/cancel").status_code == 200
        assert job.is_untouched()

    return check


def _lists_none_of_it(other: Product, theirs: Theirs) -> None:
    job = _Job(theirs.owner)
    looks: list[dict[str, Any]] = [
        {"limit": 500},
        {"messageGroup": job.mark},
        {"source": job.mark},
        {"page": 0, "size": 100},
        {"cursor": "F000000000000"},
    ]
    for params in looks:
        page = other.http.get(JOBS, params=params)
        assert page.status_code == 200
        assert job.mark not in page.text


def _offers_none_of_it(other: Product, theirs: Theirs) -> None:
    job = _Job(theirs.owner)
    assert job.mark in theirs.owner.http.get(f"{JOBS}/filter-options").text
    assert job.mark not in other.http.get(f"{JOBS}/filter-options").text


def _finds_no_event(other: Product, theirs: Theirs) -> None:
    job = _Job(theirs.owner)
    page = other.http.get(f"{JOBS}/event/{job.id}")
    assert page.json() == {"items": [], "nextCursor": None}


def _cannot_reach(method: str, rest: str = "") -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        job = _Job(theirs.owner)
        for prefix in (JOBS, "/api/dispatch/jobs"):
            reply = other.http.request(method, f"{prefix}/{job.id}{rest}")
            assert_problem(reply, 404, "not_found")
        assert job.is_untouched()

    return check


def _changes_none_of_it(rest: str) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        job = _Job(theirs.owner)
        reply = other.http.post(JOBS + rest, json={"ids": [job.id]}).json()
        assert reply["changed"] == 0
        assert reply["refused"] == [{"id": job.id, "result": "unknown"}]
        states = ["QUEUED", "PENDING", "ERROR", "COMPLETED"]
        wish = {"messageGroup": job.mark, "status": states}
        assert other.http.post(JOBS + rest, json=wish).json()["changed"] == 0
        assert job.is_untouched()

    return check


def _recovers_none_of_it(other: Product, theirs: Theirs) -> None:
    job = _Job(theirs.owner)
    assert other.http.post(f"{JOBS}/recover", json={"since": "2020-01-01T00:00:00Z"}).is_success
    assert job.is_untouched()


def _lists_no_group_of_it(other: Product, theirs: Theirs) -> None:
    job = _Job(theirs.owner)
    theirs.owner.http.post(f"{GROUPS}/{job.mark}/park", json={"reason": "held"})
    assert job.mark in theirs.owner.http.get(GROUPS, params={"state": "parked"}).text
    for params in ({"limit": "200"}, {"state": "parked"}, {"pool": "default"}):
        page = other.http.get(GROUPS, params=params)
        assert page.status_code == 200
        assert job.mark not in page.text


def _cannot_reach_group(method: str, rest: str = "") -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        job = _Job(theirs.owner)
        for pool in ({}, {"pool": "default"}):
            reply = other.http.request(method, f"{GROUPS}/{job.mark}{rest}", params=pool)
            assert_problem(reply, 404, "not_found")
        assert job.is_untouched()

    return check


def _parks_its_own(other: Product, theirs: Theirs) -> None:
    job = _Job(theirs.owner)
    path = f"{GROUPS}/{job.mark}"
    assert other.http.post(f"{path}/park", json={"reason": "mine"}).status_code == 200
    assert job.is_untouched()
    assert other.http.post(f"{path}/resume").status_code == 200
    assert_problem(other.http.get(path), 404, "not_found")


def _tells_nothing_of_it(path: str) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        job = _Job(theirs.owner)
        page = other.http.get(MONITORING + path)
        assert page.status_code == 200
        assert job.mark not in page.text
        assert job.id not in page.text

    return check


def _resets_its_own(other: Product, theirs: Theirs) -> None:
    job = _Job(theirs.owner)
    path = f"{MONITORING}/circuit-breakers/{quote(job.target, safe='')}/reset"
    assert_problem(other.http.post(path), 404, "not_found")


def _resets_nobodys(other: Product, _: Theirs) -> None:
    reply = other.http.post(f"{MONITORING}/circuit-breakers/reset-all")
    assert reply.json() == {"reset": 0}


def _cannot_change_the_shared_pool(other: Product, _: Theirs) -> None:
    before = other.http.get(f"{MONITORING}/pool-stats").json()["items"][0]["maxConcurrency"]
    reply = other.http.put(f"{MONITORING}/pools/default", json={"concurrency": 1})
    assert_problem(reply, 403, "anchors_pool")
    after = other.http.get(f"{MONITORING}/pool-stats").json()["items"][0]["maxConcurrency"]
    assert before == after


class _Warning:
    """A warning of theirs."""

    def __init__(self, owner: Product) -> None:
        self.owner = owner
        self.mark = f"theirs-{new_id()}"

        async def warn(pool: Pool) -> int:
            slug = "select tenant_id from api_keys where prefix = $1"
            tenant = await pool.fetchval(slug, owner.key.split("_")[1])
            new = NewWarning(
                tenant=tenant,
                category="TEST",
                severity=Severity.CRITICAL,
                source=self.mark,
                message=self.mark,
            )
            return await warnings.warn(pool, new)

        self.id: int = in_database(owner, warn)

    def is_open(self) -> bool:
        """Whether its owner still has to look at it."""
        page = self.owner.http.get(f"{MONITORING}/warnings/unacknowledged")
        return self.mark in page.text


def _lists_no_warning_of_it(rest: str) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        warning = _Warning(theirs.owner)
        assert warning.is_open()
        page = other.http.get(f"{MONITORING}/warnings{rest}", params={"limit": 500})
        assert page.status_code == 200
        assert warning.mark not in page.text

    return check


def _cannot_acknowledge(other: Product, theirs: Theirs) -> None:
    warning = _Warning(theirs.owner)
    reply = other.http.post(f"{MONITORING}/warnings/{warning.id}/acknowledge")
    assert_problem(reply, 404, "not_found")
    assert warning.is_open()


def _deletes_no_warning_of_it(rest: str) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        warning = _Warning(theirs.owner)
        assert other.http.delete(f"{MONITORING}/warnings{rest}").status_code == 200
        assert warning.is_open()

    return check


JOB_ISOLATION: dict[str, Check] = {
    "createDispatchJob": _posts_its_own(),
    "createDispatchJobs": _posts_its_own("/batch"),
    "listDispatchJobs": _lists_none_of_it,
    "listDispatchJobOptions": _offers_none_of_it,
    "listDispatchJobsOfEvent": _finds_no_event,
    "showDispatchJob": _cannot_reach("GET"),
    "listDispatchAttempts": _cannot_reach("GET", "/attempts"),
    "requeueDispatchJob": _cannot_reach("POST", "/requeue"),
    "resendDispatchJob": _cannot_reach("POST", "/resend"),
    "cancelDispatchJob": _cannot_reach("POST", "/cancel"),
    "completeDispatchJob": _cannot_reach("POST", "/complete"),
    "ignoreDispatchJob": _cannot_reach("POST", "/ignore"),
    "requeueDispatchJobs": _changes_none_of_it("/requeue"),
    "cancelDispatchJobs": _changes_none_of_it("/cancel"),
    "completeDispatchJobs": _changes_none_of_it("/complete"),
    "ignoreDispatchJobs": _changes_none_of_it("/ignore"),
    "recoverDispatchJobs": _recovers_none_of_it,
    "listDispatchGroups": _lists_no_group_of_it,
    "showDispatchGroup": _cannot_reach_group("GET"),
    "parkDispatchGroup": _parks_its_own,
    "resumeDispatchGroup": _cannot_reach_group("POST", "/resume"),
    "skipDispatchGroup": _cannot_reach_group("POST", "/skip"),
    "showDispatchHealth": _tells_nothing_of_it("/health"),
    "listPoolStats": _tells_nothing_of_it("/pool-stats"),
    "listQueueStats": _tells_nothing_of_it("/queue-stats"),
    "listInFlightMessages": _tells_nothing_of_it("/in-flight-messages"),
    "listCircuitBreakers": _tells_nothing_of_it("/circuit-breakers"),
    "showConsumerHealth": _tells_nothing_of_it("/consumer-health"),
    "showStandbyStatus": _tells_nothing_of_it("/standby-status"),
    "showDashboard": _tells_nothing_of_it("/dashboard"),
    "resetCircuitBreaker": _resets_its_own,
    "resetCircuitBreakers": _resets_nobodys,
    "changePoolTerms": _cannot_change_the_shared_pool,
    "listWarnings": _lists_no_warning_of_it(""),
    "listOpenWarnings": _lists_no_warning_of_it("/unacknowledged"),
    "listWarningsBySeverity": _lists_no_warning_of_it("/severity/CRITICAL"),
    "acknowledgeWarning": _cannot_acknowledge,
    "deleteWarnings": _deletes_no_warning_of_it(""),
    "deleteOldWarnings": _deletes_no_warning_of_it("/old?hours=0"),
}
