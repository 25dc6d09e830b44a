"""What each answer means, as a table."""

from datetime import UTC, datetime
from email.utils import format_datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.dispatch.attempt import (
    MAX_BODY_CHARS,
    MAX_FREE_DEFERRAL,
    AttemptStatus,
    DeliveryAttempt,
    ErrorType,
    decide,
    pause_after,
    read_answer,
    read_failure,
)
from core.dispatch.job import JobStatus, QueueState
from core.shared.call_outcome import CallState

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()


def http_date(seconds: float) -> str:
    return format_datetime(datetime.fromtimestamp(NOW + seconds, UTC), usegmt=True)


def read(status: int, body: bytes = b"", after: str | None = None) -> DeliveryAttempt:
    return read_answer(status, {} if after is None else {"Retry-After": after}, body, NOW)


DONE = (AttemptStatus.SUCCESS, None, None, False)
REFUSED = (AttemptStatus.CLIENT_ERROR, ErrorType.PERMANENT, None, False)
NOT_NOW = (AttemptStatus.CLIENT_ERROR, ErrorType.TRANSIENT, None, False)
BROKEN = (AttemptStatus.SERVER_ERROR, ErrorType.TRANSIENT, None, True)
NEVER = (AttemptStatus.SERVER_ERROR, ErrorType.PERMANENT, None, False)


def put_off(seconds: float) -> tuple[AttemptStatus, None, float, bool]:
    return AttemptStatus.DEFERRED, None, seconds, False


ANSWERS = [
    # status, Retry-After, body, what it means
    (200, None, b"", DONE),
    (200, None, b"ok", DONE),
    (200, None, b'{"ack":true}', DONE),
    (200, None, b'{"ack":true,"delaySeconds":9,"x":false}', DONE),
    (201, None, b"", DONE),
    (202, None, b"", DONE),
    (204, None, b"", DONE),
    (207, None, b"", DONE),
    (299, None, b"", DONE),
    (200, "120", b"", DONE),
    # A polite no.
    (200, None, b'{"ack":false}', put_off(30)),
    (202, None, b' { "ack" : false , "message": "busy" } ', put_off(30)),
    (200, None, b'{"ack":false,"delaySeconds":5}', put_off(5)),
    (200, None, b'{"ack":false,"delaySeconds":2.5}', put_off(2.5)),
    (200, None, b'{"ack":false,"delaySeconds":0}', put_off(1)),
    (200, None, b'{"ack":false,"delaySeconds":-7}', put_off(1)),
    (200, None, b'{"ack":false,"delaySeconds":43200}', put_off(43_200)),
    (200, None, b'{"ack":false,"delaySeconds":99999}', put_off(43_200)),
    (200, None, b'{"ack":false,"delaySeconds":1e300}', put_off(43_200)),
    (200, None, b'{"ack":false,"delaySeconds":' + b"9" * 400 + b"}", put_off(43_200)),
    (200, None, b'{"ack":false,"delaySeconds":"5"}', put_off(30)),
    (200, None, b'{"ack":false,"delaySeconds":null}', put_off(30)),
    (200, None, b'{"ack":false,"delaySeconds":true}', put_off(30)),
    (200, None, b'{"\\u0061ck":false}', put_off(30)),
    (200, None, b'{"ack":true,"ack":false}', put_off(30)),
    # Not one.
    (200, None, b'{"ack":"false"}', DONE),
    (200, None, b'{"ack":null,"ok":false}', DONE),
    (200, None, b'{"ack":0,"ok":false}', DONE),
    (200, None, b'{"result":{"ack":false}}', DONE),
    (200, None, b'[{"ack":false}]', DONE),
    (200, None, b"false", DONE),
    (200, None, b'{"ack":false', DONE),
    (200, None, b'{"ack":false}}', DONE),
    (200, None, b'{"x":' + b"[" * 5_000 + b"false", DONE),
    (200, None, b'\xff{"ack":false}', DONE),
    (400, None, b'{"ack":false}', REFUSED),
    (500, None, b'{"ack":false}', BROKEN),
    # Elsewhere.
    (300, None, b"", REFUSED),
    (301, None, b"", REFUSED),
    (302, None, b"", REFUSED),
    (304, None, b"", REFUSED),
    (307, None, b"", REFUSED),
    (308, None, b"", REFUSED),
    # Its fault is ours.
    (400, None, b"", REFUSED),
    (401, None, b"", REFUSED),
    (403, None, b"", REFUSED),
    (404, None, b"", REFUSED),
    (404, "5", b"", REFUSED),
    (405, None, b"", REFUSED),
    (408, None, b"", NOT_NOW),
    (409, None, b"", REFUSED),
    (410, None, b"", REFUSED),
    (413, None, b"", REFUSED),
    (422, None, b"", REFUSED),
    (425, None, b"", NOT_NOW),
    (451, None, b"", REFUSED),
    (499, None, b"", REFUSED),
    # Its fault.
    (500, None, b"", BROKEN),
    (500, "5", b"", BROKEN),
    (501, None, b"", NEVER),
    (502, None, b"", BROKEN),
    (503, None, b"", BROKEN),
    (504, None, b"", BROKEN),
    (599, None, b"", BROKEN),
    # No answer that there is.
    (101, None, b"", BROKEN),
    (199, None, b"", BROKEN),
    (600, None, b"", BROKEN),
    (999, None, b"", BROKEN),
    # Later.
    (429, None, b"", put_off(30)),
    (429, "7", b"", put_off(7)),
    (429, " 7 ", b"", put_off(7)),
    (429, "0", b"", put_off(1)),
    (429, "3600", b"", put_off(3_600)),
    (429, "3601", b"", put_off(3_600)),
    (429, "9" * 5_000, b"", put_off(3_600)),
    (429, http_date(90), b"", put_off(90)),
    (429, http_date(-90), b"", put_off(1)),
    (429, http_date(1e6), b"", put_off(3_600)),
    (429, "Sun, 01 Mar 2026 12:00:10 -0000", b"", put_off(10)),
    (429, "Sun, 01 Mar 2026 13:00:10 +0100", b"", put_off(10)),
    (429, "Sunday, 01-Mar-26 12:00:10 GMT", b"", put_off(10)),
    (429, "Sun Mar  1 12:00:10 2026", b"", put_off(10)),
    (429, "", b"", put_off(30)),
    (429, "soon", b"", put_off(30)),
    (429, "-5", b"", put_off(30)),
    (429, "1.5", b"", put_off(30)),
    (429, "٣", b"", put_off(30)),
    (429, "Sun, 99 Mar 2026 12:00:10 GMT", b"", put_off(30)),
    (429, "Mon, 01 Jan 99999 00:00:00 GMT", b"", put_off(30)),
    (503, "7", b"", put_off(7)),
    (503, "0", b"", put_off(1)),
    (503, http_date(20), b"", put_off(20)),
    (503, "soon", b"", BROKEN),
    (503, "", b"", BROKEN),
]


@pytest.mark.parametrize(("status", "after", "body", "meaning"), ANSWERS)
def test_every_answer_has_a_meaning(
    status: int,
    after: str | None,
    body: bytes,
    meaning: tuple[AttemptStatus, ErrorType | None, float | None, bool],
) -> None:
    sent = read(status, body, after)
    assert (sent.status, sent.error_type, sent.delay, sent.counts_as_failure) == meaning
    assert sent.code == status
    assert sent.permanent is (meaning[1] is ErrorType.PERMANENT)
    assert (sent.error is None) is (sent.status is AttemptStatus.SUCCESS)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (read(404), "HTTP 404"),
        (read(500), "HTTP 500"),
        (read(302), "HTTP 302: no redirect is followed"),
        (read(429, after="12"), "HTTP 429: asked to wait 12 s"),
        (read(200, b'{"ack":false,"delaySeconds":2.5}'), "not acknowledged: asked to wait 2.5 s"),
    ],
)
def test_an_error_says_what_was_said(sent: DeliveryAttempt, error: str) -> None:
    assert sent.error == error


@given(st.integers(100, 999), st.text(max_size=40), st.binary(max_size=40))
def test_whatever_is_said_means_something(status: int, after: str, body: bytes) -> None:
    sent = read(status, body, after)
    assert (sent.delay is not None) is (sent.status is AttemptStatus.DEFERRED)
    assert sent.delay is None or 1 <= sent.delay <= 43_200
    assert (sent.error_type is None) is (
        sent.status in {AttemptStatus.SUCCESS, AttemptStatus.DEFERRED}
    )
    assert not (sent.counts_as_failure and sent.permanent)


@given(st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d [+-]?\w{1,6}"))
def test_what_is_almost_a_date_breaks_nothing(after: str) -> None:
    assert 1 <= (read(429, after=after).delay or 0) <= 3_600


# What is kept of a body.


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"", None),
        (b"fine", "fine"),
        (b"x" * (MAX_BODY_CHARS + 1), "x" * MAX_BODY_CHARS),
        ("ä".encode() * 9_000, "ä" * MAX_BODY_CHARS),
        ("𝄞".encode() * 9_000, "𝄞" * MAX_BODY_CHARS),
        (b"a\0b", "a\ufffdb"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
def test_a_body_is_kept_as_text_that_can_be_stored(body: bytes, kept: str | None) -> None:
    assert read(200, body).body == kept


@given(st.binary(max_size=200), st.integers(0, 30_000))
def test_no_body_is_too_much(part: bytes, times: int) -> None:
    kept = read(500, part * times).body
    assert kept is None or (len(kept) <= MAX_BODY_CHARS and "\0" not in kept and kept.encode())


# No answer.


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (CallState.TIMEOUT, AttemptStatus.TIMEOUT),
        (CallState.CONNECTION_CLOSED, AttemptStatus.CONNECTION_ERROR),
        (CallState.ERROR, AttemptStatus.CONNECTION_ERROR),
    ],
)
def test_no_answer_may_be_one_later(state: CallState, status: AttemptStatus) -> None:
    sent = read_failure(state, "why", began_at=3.0, seconds=2.0)
    assert (sent.status, sent.error_type, sent.error) == (status, ErrorType.TRANSIENT, "why")
    assert (sent.code, sent.body, sent.delay, sent.counts_as_failure) == (None, None, None, True)
    assert (sent.began_at, sent.seconds) == (3.0, 2.0)


def test_what_may_not_be_called_never_answers_and_says_nothing_of_the_target() -> None:
    sent = read_failure(CallState.ERROR, "127.0.0.1 may not be called", permanent=True)
    assert (sent.status, sent.permanent) == (AttemptStatus.CONNECTION_ERROR, True)
    assert not sent.counts_as_failure


# What becomes of the job.

LADDER = [3, 6, 12, 24, 48, 96, 192, 384, 600, 600]


@pytest.mark.parametrize(("attempt", "seconds"), list(enumerate(LADDER, start=1)))
def test_each_pause_is_twice_the_last_up_to_ten_minutes(attempt: int, seconds: float) -> None:
    broken = read(500)
    for jitter, pause in ((0.0, seconds / 2), (1.0, float(seconds))):
        step = decide(broken, attempt_count=attempt - 1, max_retries=99, jitter=jitter)
        assert (step.status, step.standing) == (JobStatus.QUEUED, QueueState.OPEN)
        assert (step.attempt_count, step.attempt_number, step.wait) == (attempt, attempt, pause)
        assert pause_after(attempt, jitter) == pause
        assert step.error == "HTTP 500"


STEPS = [
    # what came, attempts before, at most, status, attempts after, wait
    (read(200), 0, 3, JobStatus.COMPLETED, 1, None),
    (read(200), 2, 3, JobStatus.COMPLETED, 3, None),
    (read(200), 7, 3, JobStatus.COMPLETED, 8, None),
    (read(500), 0, 3, JobStatus.QUEUED, 1, 3.0),
    (read(500), 1, 3, JobStatus.QUEUED, 2, 6.0),
    (read(500), 2, 3, JobStatus.ERROR, 3, None),
    (read(500), 0, 1, JobStatus.ERROR, 1, None),
    (read(500), 5, 3, JobStatus.ERROR, 6, None),
    (read(408), 0, 3, JobStatus.QUEUED, 1, 3.0),
    (read(404), 0, 3, JobStatus.ERROR, 1, None),
    (read(302), 0, 3, JobStatus.ERROR, 1, None),
    (read(429, after="9"), 0, 3, JobStatus.QUEUED, 0, 9.0),
    (read(429, after="9"), 2, 3, JobStatus.QUEUED, 2, 9.0),
    (read(429, after="9"), 3, 3, JobStatus.QUEUED, 3, 9.0),
    (read(200, b'{"ack":false}'), 2, 3, JobStatus.QUEUED, 2, 30.0),
    (read_failure(CallState.TIMEOUT, "late"), 1, 3, JobStatus.QUEUED, 2, 6.0),
    (read_failure(CallState.ERROR, "no", permanent=True), 0, 3, JobStatus.ERROR, 1, None),
]


@pytest.mark.parametrize(("sent", "before", "most", "status", "after", "wait"), STEPS)
def test_what_becomes_of_a_job(
    sent: DeliveryAttempt, before: int, most: int, status: JobStatus, after: int, wait: float | None
) -> None:
    step = decide(sent, attempt_count=before, max_retries=most, jitter=1.0)
    assert (step.status, step.attempt_count, step.wait) == (status, after, wait)
    assert step.attempt_number == before + 1
    assert step.error == sent.error
    assert (
        step.standing
        is {
            JobStatus.COMPLETED: QueueState.DONE,
            JobStatus.QUEUED: QueueState.OPEN,
            JobStatus.ERROR: QueueState.ERROR,
        }[status]
    )


@given(
    st.lists(st.sampled_from([200, 400, 429, 500]), max_size=20),
    st.integers(1, 6),
    st.floats(0, 1),
)
def test_a_job_ends_by_an_answer_or_by_its_last_attempt(
    statuses: list[int], most: int, jitter: float
) -> None:
    count, spent = 0, 0
    for status in statuses:
        step = decide(read(status), attempt_count=count, max_retries=most, jitter=jitter)
        spent += status != 429
        assert step.attempt_count == spent <= most
        count = step.attempt_count
        if step.status is not JobStatus.QUEUED:
            assert status in {200, 400} or spent == most
            return
        assert status == 429 or spent < most
        assert step.wait is not None


def test_an_attempt_can_be_told_to_another_process() -> None:
    sent = read(429, b"busy", "4")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=DeliveryAttempt) == sent


def test_dates_in_the_table_are_what_they_seem() -> None:
    assert http_date(0) == "Sun, 01 Mar 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("age", "before", "status", "spent"),
    [
        (MAX_FREE_DEFERRAL, 2, JobStatus.QUEUED, 2),
        (MAX_FREE_DEFERRAL + 1, 0, JobStatus.QUEUED, 1),
        (MAX_FREE_DEFERRAL + 1, 2, JobStatus.ERROR, 3),
    ],
)
def test_patience_costs_attempts_in_the_end(
    age: float, before: int, status: JobStatus, spent: int
) -> None:
    """A job that never expires is not put off for ever."""
    asks = DeliveryAttempt(
        status=AttemptStatus.DEFERRED, delay=60.0, error="HTTP 429: asked to wait 60 s"
    )
    step = decide(asks, attempt_count=before, max_retries=3, jitter=0.5, age=age)
    assert (step.status, step.attempt_count, step.error) == (status, spent, asks.error)
    assert step.wait == (60.0 if status is JobStatus.QUEUED else None)


@pytest.mark.parametrize(
    ("status", "refuses"), [(400, True), (410, True), (429, False), (503, False), (200, False)]
)
def test_who_answers_by_a_no_is_there(status: int, refuses: bool) -> None:
    assert read_answer(status, {"Retry-After": "5"}, b"", 0.0).is_refusal is refuses
    assert not read_failure(CallState.ERROR, "forbidden", permanent=True).is_refusal
