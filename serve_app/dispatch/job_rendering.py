"""Dispatch jobs to the documents callers get, and what cannot be done with them to problems."""

from collections.abc import Iterable, Sequence

from core.dispatch.job import JobStatus, Kind, Mode
from core.dispatch.job_actions import Fate, JobAction
from core.shared.errors import NotFoundError
from core.shared.timestamps import to_iso
from core.waits.config import MASK
from serve_app.http.fields import Encoding, json_or_base64, text_or_base64
from serve_app.http.models import Document
from serve_app.http.problems import Problem, ProblemError
from storage.dispatch.job_actions import JobActionResult
from storage.dispatch.jobs import Attempt, FilterOption, Job

_SENTENCES = {
    Fate.IN_PROGRESS: "what is being delivered cannot be changed before that has ended",
    Fate.NOT_FAILED: "only a job that has failed can be completed or ignored",
    Fate.ENDED: "it has ended already, or was put aside",
    Fate.POOL_ARCHIVED: "its pool is archived, so nobody would deliver it",
}


def job_item(job: Job) -> Document:
    return {
        "id": job.job_id,
        "externalId": job.external_id,
        "kind": job.kind,
        "code": job.code,
        "source": job.source,
        "subject": job.subject,
        "eventId": job.event_id,
        "eventTenant": job.event_tenant,
        "subscriptionId": job.subscription_id,
        "correlationId": job.correlation_id,
        "clientId": job.client_id,
        "schemaId": job.schema_id,
        "metadata": [{"key": key, "value": value} for key, value in job.metadata],
        "targetUrl": job.target_url,
        "protocol": "HTTP_WEBHOOK",
        "headers": dict.fromkeys(job.headers, MASK),
        "hasAuth": job.has_auth,
        "signature": job.signature,
        "payloadContentType": job.content_type,
        "dataOnly": job.data_only,
        "mode": job.mode,
        "dispatchPoolId": job.pool_id,
        "dispatchPoolCode": job.pool_code,
        "messageGroup": job.message_group,
        "sequence": job.sequence,
        "timeoutSeconds": job.timeout_seconds,
        "maxRetries": job.max_retries,
        "retryStrategy": "exponential",
        "status": job.status,
        "ignored": job.ignored_at is not None,
        "attemptCount": job.attempt_count,
        "scheduledFor": _at(job.scheduled_for),
        "expiresAt": _at(job.expires_at),
        "lastAttemptAt": _at(job.last_attempt_at),
        "completedAt": _at(job.completed_at),
        "ignoredAt": _at(job.ignored_at),
        "durationMillis": _duration(job),
        "lastError": job.last_error,
        "idempotencyKey": _key(job),
        "createdAt": to_iso(job.created_at),
        "updatedAt": to_iso(job.updated_at),
    }


def job_document(job: Job, attempts: Iterable[Attempt]) -> Document:
    payload, encoding = json_or_base64(job.payload)
    if encoding is Encoding.BASE64:
        payload, encoding = text_or_base64(job.payload)
    return job_item(job) | {
        "payload": payload,
        "payloadEncoding": encoding,
        "attempts": [attempt_document(job.job_id, one) for one in attempts],
    }


def attempt_document(job_id: str, attempt: Attempt) -> Document:
    """One time a job was sent."""
    return {
        "id": f"{job_id}-{attempt.send_no}",
        "sendNumber": attempt.send_no,
        "attemptNumber": attempt.attempt_number,
        "attemptedAt": to_iso(attempt.attempted_at),
        "completedAt": to_iso(attempt.attempted_at + attempt.duration_ms / 1000),
        "durationMillis": attempt.duration_ms,
        "status": attempt.status,
        "responseCode": attempt.response_code,
        "responseBody": attempt.response_body,
        "errorType": attempt.error_type,
        "errorMessage": attempt.error_message,
    }


def job_action_error(told: JobActionResult) -> Exception:
    """Why one job was not changed."""
    if told.fate is Fate.UNKNOWN:
        return NotFoundError(f"dispatch job {told.job_id}")
    detail = f"{_SENTENCES[told.fate]}: job {told.job_id} is {told.previous_status}"
    return ProblemError(Problem(status=409, code=told.fate.value, detail=detail))


def changed_document(
    verb: JobAction, told: Sequence[JobActionResult], remaining: int, cursor: str | None
) -> Document:
    """Render the result of an action on many jobs."""
    changed = sum(one.fate is Fate.DONE for one in told)
    document = {
        "changed": changed,
        "refused": [_refused_job(one) for one in told if one.fate is not Fate.DONE],
        "remaining": remaining,
        "nextCursor": cursor,
    }
    return document | ({"requeued": changed} if verb is JobAction.REQUEUE else {})


def options_document(found: Iterable[FilterOption]) -> Document:
    """Render the values that listings can be filtered by."""
    names = {"code": "codes", "source": "sources", "pool": "pools", "subscription": "subscriptions"}
    document: Document = {
        "statuses": _options(JobStatus),
        "kinds": _options(Kind),
        "modes": _options(Mode),
        **{many: [] for many in names.values()},
    }
    for option in found:
        document[names[option.name]].append({"value": option.value, "label": option.label})
    return document


def _options(values: Iterable[str]) -> list[Document]:
    return [{"value": str(one), "label": str(one).replace("_", " ").capitalize()} for one in values]


def _refused_job(told: JobActionResult) -> Document:
    document: Document = {"id": told.job_id, "result": told.fate}
    return document if told.previous_status is None else document | {"status": told.previous_status}


def _duration(job: Job) -> int | None:
    if job.status is not JobStatus.COMPLETED or job.completed_at is None:
        return None
    return round((job.completed_at - job.created_at) * 1000)


def _key(job: Job) -> str | None:
    """Name an event's job by event and subscription."""
    if job.kind is Kind.EVENT:
        return f"{job.event_id}:{job.subscription_id}"
    return job.idempotency_key


def _at(at: float | None) -> str | None:
    return None if at is None else to_iso(at)
