"""Whatever the parsers accept, Postgres stores: no flush fails because of what somebody sent."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from core.events.cloud_event import EventStamp, read_binary, read_event
from core.events.event import Event
from core.kafka.message import KafkaMessage, read_message
from core.shared.address import Address
from core.shared.errors import InvalidError
from core.shared.tsid import IdMaker
from core.waits.config import WaitConfig
from core.waits.incoming_event import IncomingEvent, find_ids, offer_of, unaddressed_event
from core.waits.spec import IdFields, encode_spec
from core.waits.state import ParkedEvent
from core.waits.transitions import apply
from storage.access import keys
from storage.events.event_store import EventStore
from storage.kafka import dead_letters
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection, open_pool
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange, write_parked
from tests.support.hostile_input import RAW, TEXTS, VALUES, as_json, nearly
from tests.support.shards import address, api, register
from tests.unit.core.test_hostile_events import EXAMPLE, MEDIA_TYPES
from tests.unit.core.test_hostile_names import CALL, CONFIG, CONFIGS, EVENT

NOW = 1_750_000_000.0
TTL = 3_600.0
EXAMPLES = 300
ODD_CALL = EVENT | CALL | {"correlationIdField": "a\x00b"}
new_id = IdMaker(0, lambda: NOW)
T = TypeVar("T")


def examples(strategy: st.SearchStrategy[T], count: int = EXAMPLES) -> list[T]:
    """The same ones each time, so that what fails here fails again."""
    found: list[T] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(one: T) -> None:
        found.append(one)

    collect()
    return found


def accepted(reads: Sequence[Callable[[], T]], refusals: type[Exception]) -> list[T]:
    """What is read of all this."""
    found: list[T] = []
    for read in reads:
        try:
            found.append(read())
        except refusals:
            continue
    assert len(found) > EXAMPLES / 20, "nearly nothing is accepted, so this proves nothing"
    return found


@pytest.fixture
async def conn(database: str) -> AsyncIterator[Connection]:
    connection = await open_connection(PoolOptions(dsn=database, name="test"))
    yield connection
    await connection.close()


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


async def test_any_accepted_event_is_stored(database: str) -> None:
    birth = EventStamp(tenant=1, now=NOW, new_id=new_id)
    bodies = examples(nearly(EXAMPLE).map(as_json))
    sure = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "s"}
    binary = examples(
        st.tuples(st.dictionaries(TEXTS.map(lambda t: f"ce-{t}"), TEXTS, max_size=2), RAW)
    )
    reads: list[Callable[[], Event]] = [
        *(lambda raw=raw: read_event(raw, birth) for raw in bodies),  # type: ignore[misc]
        *(lambda h=h, b=b: read_binary(sure | h, b, birth) for h, b in binary),  # type: ignore[misc]
    ]
    events = accepted(reads, InvalidError)
    store = EventStore(PoolOptions(dsn=database, name="test"))
    try:
        for event in events:
            await store.flush([event], [])
    finally:
        store.close()


def _records() -> list[KafkaMessage]:
    values = RAW | VALUES.map(as_json) | nearly(EXAMPLE).map(as_json) | st.none()
    texts = TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass"))
    named = st.sampled_from(["content-type", "X-Correlation-Id", "X-Execution-Id", "ce_id"])
    # The reader has replaced what is no character in a name.
    names = TEXTS.map(lambda text: text.encode("utf-8", "replace").decode())
    headers = st.lists(st.tuples(named | names, st.none() | RAW | texts), max_size=4)
    types = MEDIA_TYPES.map(lambda text: text.encode("utf-8", "surrogatepass"))
    found = examples(st.tuples(values, headers, types, st.none() | RAW))
    return [
        KafkaMessage(
            topic="orders",
            partition=0,
            offset=offset,
            value=value,
            key=key,
            headers=(*some, ("content-type", declared)),
        )
        for offset, (value, some, declared, key) in enumerate(found)
    ]


async def test_any_kafka_record_is_stored(conn: Connection) -> None:
    """As an offer to its wait, in the inbox, or as a dead letter."""
    journal = FlushWriter("test", TTL)
    for record in _records():
        found = read_message(record)
        if not isinstance(found, IncomingEvent):
            await dead_letters.add(conn, 1, [(record, found.error)])
            continue
        parked = unaddressed_event(1, found, f"turn-{record.offset}", NOW)
        await write_parked(conn, [(b"", parked)], TTL)
        for change in _changes(found, record.offset):
            await journal.flush(conn, [change])
        await dead_letters.add(conn, 1, [(record, "given up")])
    assert await conn.fetchval("select count(*) from dead_letters") > EXAMPLES / 2


def _changes(arrival: IncomingEvent, number: int) -> list[WaitChange]:
    ids = find_ids({**arrival.headers, "x-execution-id": f"e-{number}"}, arrival.body)
    if not isinstance(ids, list):
        return []
    changes: list[WaitChange] = []
    for one in ids:
        where = Address(1, one.execution_id, one.correlation_id)
        decision = apply(None, offer_of(where, one.fields, arrival, f"turn-{number}"), NOW)
        parked: list[ParkedEvent] = list(decision.parked)
        changes.append(WaitChange(where.key, 1, NO_VERSION, None, [], parked, []))
    return changes


async def test_any_accepted_configuration_is_stored(conn: Connection, pool: Pool) -> None:
    """With the names under which ids are looked for, and with an event that it takes."""
    reads: list[Callable[[], Any]] = [
        lambda data=data: WaitConfig.model_validate(data)  # type: ignore[misc]
        for data in (*examples(CONFIGS), CONFIG | {"apiCall": ODD_CALL})
    ]
    journal = FlushWriter("test", TTL)
    profiles: set[IdFields] = set()
    for config in accepted(reads, ValidationError):
        where, spec = address(), config.to_spec()
        message = register(where)
        opened = apply(None, type(message)(**_fields(message) | {"spec": encode_spec(spec)}), NOW)
        assert opened.wait is not None
        change = WaitChange(where.key, 1, NO_VERSION, opened.wait, list(opened.entries), [], [])
        assert await journal.flush(conn, [change]) == {where.key}
        profiles |= {event.ids for event in spec.events}
        apply(opened.wait, api(where), NOW + 1)
    for fields in profiles:
        await keys.create_profile(pool, 1, fields)


def _fields(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__struct_fields__}
