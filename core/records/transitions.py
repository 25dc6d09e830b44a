"""The transition of records: one message, and all that it stores.

Deleting a master deletes the details that the message names in the same transaction. Details that
have another master by now are left alone.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, NamedTuple

from core.records.change_outbox import outbox_rows
from core.records.field import FieldType
from core.records.messages import (
    FieldProblem,
    RecordMessage,
    RecordRefusal,
    RecordRefused,
    RecordReplies,
    RecordResult,
    RecordWrite,
    SaveAllRecords,
    SaveRecord,
    refused,
)
from core.records.record import Collection, Record, RecordAddress, UniqueValue
from core.records.record_schema import RecordSchema
from core.records.save import RecordHooks, SavedState, save
from core.shared.entities import EntityRef, LoadRequest, ReadView, Row, Transition

SchemaOf = Callable[[Collection], RecordSchema]
NewId = Callable[[], str]


class RecordTransitions(NamedTuple):
    """Decides messages to records."""

    schema_of: SchemaOf
    hooks: RecordHooks = RecordHooks()
    change_topic: str | None = None
    """The Kafka topic of changes, if there is Kafka."""

    def apply(
        self, message: RecordMessage, view: ReadView, now: float, new_id: NewId
    ) -> Transition | LoadRequest:
        saves = (message,) if isinstance(message, SaveRecord) else message.saves
        if isinstance(message, SaveAllRecords) and (refusals := _refuse_twice(saves)):
            return Transition(reply=RecordReplies(replies=refusals))
        request = view.missing(*(ref for one in saves for ref in _read_by(one)))
        if request is not None:
            return request
        results = [self._save(one, view, now, new_id) for one in saves]
        details = [
            detail
            for one, result in zip(saves, results, strict=True)
            if isinstance(result, SavedState)
            for detail in self._delete_details(one, view, now, new_id)
        ]
        states = [one for one in results if isinstance(one, SavedState)] + details
        request = view.missing(*(ref for state in states for ref in _unique_refs(state)))
        if request is not None:
            return request
        replies = _replies(results, view)
        reply = replies[0] if isinstance(message, SaveRecord) else RecordReplies(replies=replies)
        if any(isinstance(one, RecordRefused) for one in replies):
            return Transition(reply=reply)
        return Transition(
            reply=reply,
            entities=(*(state.record for state in states), *_unique_values(states)),
            rows=tuple(row for state in states for row in self._rows(state, view)),
            # A master that is deleted meanwhile must not get a detail.
            unchanged=tuple(master.ref for one in saves for master in one.masters.values()),
        )

    def _save(
        self, message: SaveRecord, view: ReadView, now: float, new_id: NewId
    ) -> SavedState | RecordResult:
        collection = view.get(message.address.collection_ref)
        if collection is None:
            return refused(RecordRefusal.COLLECTION_GONE)
        if not collection.is_active:
            return refused(RecordRefusal.COLLECTION_ARCHIVED)
        orphaned = _orphaned(message, view)
        if orphaned:
            return refused(RecordRefusal.INVALID_RECORD, *orphaned)
        current = view.get(message.address.ref)
        return save(message, current, self.schema_of(collection), self.hooks, now, new_id)

    def _rows(self, state: SavedState, view: ReadView) -> tuple[Row, ...]:
        collection = view.get(state.record.address.collection_ref)
        followed = collection.followed if collection is not None else frozenset()
        told = outbox_rows(state.change, followed, self.change_topic)
        return (state.change, *state.rows, *told)

    def _delete_details(
        self, message: SaveRecord, view: ReadView, now: float, new_id: NewId
    ) -> Iterator[SavedState]:
        masters = view.get(message.address.collection_ref)
        for address in dict.fromkeys(message.details):
            if address == message.address:
                continue
            collection, detail = view.get(address.collection_ref), view.get(address.ref)
            if masters is None or collection is None or detail is None:
                continue
            if _is_detail(detail, collection, message.address, masters.definition.name):
                deletion = _deletion(message, address, collection.version)
                schema = self.schema_of(collection)
                saved = save(deletion, detail, schema, self.hooks, now, new_id)
                if isinstance(saved, SavedState):
                    yield saved


def _read_by(message: SaveRecord) -> Iterator[EntityRef[Any]]:
    for address in (message.address, *message.details):
        yield address.collection_ref
        yield address.ref
    for master in message.masters.values():
        yield master.ref


def _refuse_twice(saves: Iterable[SaveRecord]) -> tuple[RecordRefused, ...]:
    """Return refusals, if the saves name a record twice: nobody could say which of them is last.

    A record may be the master of several, if it is not written itself.
    """
    counts: Counter[RecordAddress] = Counter()
    for one in saves:
        counts.update((one.address, *dict.fromkeys(one.details)))
    masters = {master for one in saves for master in one.masters.values()}
    twice = {address for address, count in counts.items() if count + (address in masters) > 1}
    replies = tuple(_refuse_named(one, twice) for one in saves)
    return replies if twice else ()


def _refuse_named(message: SaveRecord, twice: Container[RecordAddress]) -> RecordRefused:
    named = (message.address, *message.details, *message.masters.values())
    found = next((address.record_id for address in named if address in twice), None)
    if found is None:
        return refused(RecordRefusal.BATCH_REFUSED)
    expected = f"each record once, as the batch is atomic; {found} is written twice, or is a master"
    return refused(RecordRefusal.INVALID_RECORD, FieldProblem("id", expected))


def _is_detail(detail: Record, collection: Collection, master: RecordAddress, masters: str) -> bool:
    return any(
        field.type is FieldType.MASTER_DETAIL
        and field.target == masters
        and detail.data.get(field.name) == master.record_id
        for field in collection.definition.fields
    )


def _deletion(message: SaveRecord, address: RecordAddress, version: int) -> SaveRecord:
    return SaveRecord(
        address=address,
        turn_id=message.turn_id,
        write=RecordWrite.DELETE,
        definition_version=version,
        user=message.user,
        cause=message.cause,
        depth=message.depth,
    )


def _orphaned(message: SaveRecord, view: ReadView) -> list[FieldProblem]:
    """Return a problem for each master that does not exist."""
    return [
        FieldProblem(field, f"the id of a record that exists; there is no {master.record_id}")
        for field, master in message.masters.items()
        if (found := view.get(master.ref)) is None or found.deleted_at is not None
    ]


def _unique_refs(state: SavedState) -> Iterator[EntityRef[UniqueValue]]:
    for key in (*state.taken, *state.released):
        yield state.record.address.unique_ref(*key)


def _replies(
    results: Iterable[SavedState | RecordResult], view: ReadView
) -> tuple[RecordResult, ...]:
    """Return the replies; a record gets no value that another record has or takes as well."""
    taken: set[EntityRef[UniqueValue]] = set()
    replies: list[RecordResult] = []
    for result in results:
        if not isinstance(result, SavedState):
            replies.append(result)
            continue
        address, problems = result.record.address, []
        for key in result.taken:
            ref = address.unique_ref(*key)
            held = view.get(ref)
            is_others = held is not None and held.record_id not in {None, address.record_id}
            if is_others or ref in taken:
                expected = "a value that no other record of the collection has"
                problems.append(FieldProblem(key.field, expected))
            taken.add(ref)
        refusal = RecordRefusal.VALUE_NOT_UNIQUE
        replies.append(refused(refusal, *problems) if problems else result.reply)
    return tuple(replies)


def _unique_values(states: Iterable[SavedState]) -> Iterable[UniqueValue]:
    """Return the values that change hands; one that is released and taken is taken."""
    values: dict[EntityRef[UniqueValue], UniqueValue] = {}
    for state in states:
        for key in state.released:
            ref = state.record.address.unique_ref(*key)
            values.setdefault(ref, UniqueValue(ref=ref, record_id=None))
        for key in state.taken:
            ref = state.record.address.unique_ref(*key)
            values[ref] = UniqueValue(ref=ref, record_id=state.record.address.record_id)
    return values.values()
