"""Writes records: checks what is submitted, and sends it to the records' shards."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from core.records.field import FieldType
from core.records.messages import (
    FieldProblem,
    RecordRefusal,
    RecordRefused,
    RecordReplies,
    RecordResult,
    RecordWrite,
    SaveAllRecords,
    SaveRecord,
    refused,
)
from core.records.record import RecordAddress
from core.records.validation import check_fields
from core.records.values import RESERVED_IDS, is_record_id
from core.shared.errors import InvalidError
from core.waits.messages import RefusedReply
from services.records.record_collections import RecordCollection, RecordCollections
from services.records.record_numbers import AutoNumbers
from services.shared.time_slice import map_yielding

_encode = msgspec.json.Encoder().encode
MAX_ATTEMPTS = 3
"""How often a write is tried while its collection changes."""
MAX_ATOMIC_WORK = 1_000
"""The most that one transaction does: records that it writes, and formulas that it computes.

A shard does nothing else meanwhile, and a formula may take two milliseconds.
"""

Send: TypeAlias = Callable[[list[Any]], Awaitable[list[Any]]]
Encrypt: TypeAlias = Callable[[RecordAddress, str, str], str]
WriteReply: TypeAlias = RecordResult | RefusedReply


class RecordOperation(NamedTuple):
    """One write, as a caller asks for it."""

    write: RecordWrite
    record_id: str | None
    fields: Mapping[str, Any] = {}
    expected_version: int | None = None
    details: tuple[RecordAddress, ...] = ()
    """Records to delete together with their master."""


class RecordWriting(NamedTuple):
    """What an operation led to: the id of its record, and the reply of the shard."""

    record_id: str
    reply: WriteReply


Prepared: TypeAlias = SaveRecord | RecordWriting
"""A message to send, or the result of an operation that cannot be valid."""


class RecordWriter:
    """The way of all record writes of this process."""

    def __init__(
        self,
        collections: RecordCollections,
        send_many: Send,
        numbers: AutoNumbers,
        encrypt: Encrypt,
        new_id: Callable[[], str],
        new_turn_id: Callable[[], str],
    ) -> None:
        self._collections = collections
        self._send_many = send_many
        self._numbers = numbers
        self._encrypt = encrypt
        self._new_id = new_id
        self._new_turn_id = new_turn_id

    async def write(
        self,
        tenant: int,
        collection: RecordCollection,
        operations: Sequence[RecordOperation],
        user: str | None,
        *,
        atomic: bool = False,
    ) -> list[RecordWriting]:
        """Write records, each on its own, or all or none; results are in the order of operations.

        A write that meets another version of the collection is prepared again for that one.

        Raises:
            InvalidError: All or none would be more than one transaction may do.
        """
        results: dict[int, RecordWriting] = {}
        waiting = list(range(len(operations)))
        for _ in range(MAX_ATTEMPTS):
            chosen = [operations[index] for index in waiting]
            if atomic:
                _check_work(collection, chosen)
            prepared = await self._prepare(tenant, collection, chosen, user)
            send = self._send_together if atomic else self._send_each
            results |= zip(waiting, await send(prepared), strict=True)
            outdated = [index for index in waiting if _is_outdated(results[index].reply)]
            if not outdated:
                break
            waiting = waiting if atomic else outdated
            collection = await self._collections.refresh(tenant, collection.name) or collection
        return [results[index] for index in range(len(operations))]

    async def _prepare(
        self,
        tenant: int,
        collection: RecordCollection,
        operations: Sequence[RecordOperation],
        user: str | None,
    ) -> list[Prepared]:
        masters = await self._collections.masters(tenant, collection)
        draft = _Drafts(tenant, collection, user, masters)

        def prepare(operation: RecordOperation) -> Prepared:
            return draft.message(operation, self._new_id, self._new_turn_id, self._encrypt)

        prepared = await map_yielding(prepare, operations)
        return await self._with_numbers(tenant, collection, prepared)

    async def _send_each(self, prepared: list[Prepared]) -> list[RecordWriting]:
        messages = [one for one in prepared if isinstance(one, SaveRecord)]
        replies = iter(await self._send_many(messages) if messages else ())
        return [
            RecordWriting(one.address.record_id, next(replies))
            if isinstance(one, SaveRecord)
            else one
            for one in prepared
        ]

    async def _send_together(self, prepared: list[Prepared]) -> list[RecordWriting]:
        saves = tuple(one for one in prepared if isinstance(one, SaveRecord))
        if len(saves) < len(prepared):
            return _none_saved(prepared)
        message = SaveAllRecords(
            address=saves[0].address,
            turn_id=saves[0].turn_id,
            saves=saves,
            weight=sum(one.weight for one in saves),
        )
        (reply,) = await self._send_many([message])
        if not isinstance(reply, RecordReplies):
            return [RecordWriting(one.address.record_id, reply) for one in saves]
        pairs = zip(saves, reply.replies, strict=True)
        answered = [RecordWriting(one.address.record_id, each) for one, each in pairs]
        return answered if reply.are_saved else _none_saved(answered)

    async def _with_numbers(
        self, tenant: int, collection: RecordCollection, messages: list[Prepared]
    ) -> list[Prepared]:
        """Give the new records their numbers."""
        fields = [
            field.name
            for field in collection.schema.definition.fields
            if field.type is FieldType.AUTO_NUMBER
        ]
        count = sum(map(_makes_record, messages)) if fields else 0
        if not count:
            return messages
        taken = {
            name: iter(await self._numbers.take((tenant, collection.collection_no, name), count))
            for name in fields
        }
        return [
            replace(one, numbers={name: next(numbers) for name, numbers in taken.items()})
            if isinstance(one, SaveRecord) and _makes_record(one)
            else one
            for one in messages
        ]


class _Drafts:
    """Turns operations on one collection into messages."""

    def __init__(
        self,
        tenant: int,
        collection: RecordCollection,
        user: str | None,
        masters: Mapping[str, int],
    ) -> None:
        self._tenant = tenant
        self._collection = collection
        self._user = user
        self._masters = masters

    def message(
        self,
        operation: RecordOperation,
        new_id: Callable[[], str],
        new_turn_id: Callable[[], str],
        encrypt: Encrypt,
    ) -> Prepared:
        """Return the message, or the reply to an operation that cannot be valid."""
        record_id = new_id() if operation.record_id is None else operation.record_id
        if not is_record_id(record_id):
            form = "1 to 100 letters, digits and . _ : -, beginning with a letter or digit"
            expected = f"{form}, but not {', '.join(sorted(RESERVED_IDS))}"
            problem = FieldProblem("id", expected)
            return RecordWriting(record_id, refused(RecordRefusal.INVALID_RECORD, problem))
        schema = self._collection.schema
        address = RecordAddress(self._tenant, self._collection.collection_no, record_id)
        fields, kept, problems = check_fields(schema, operation.write, operation.fields)
        if problems:
            return RecordWriting(record_id, refused(RecordRefusal.INVALID_RECORD, *problems))
        for name in schema.encrypted & fields.keys():
            if fields[name] is not None:
                fields[name] = encrypt(address, name, fields[name])
        return SaveRecord(
            address=address,
            turn_id=new_turn_id(),
            write=operation.write,
            definition_version=schema.version,
            fields=fields,
            weight=300 + len(_encode(fields)),
            kept=kept,
            expected_version=operation.expected_version,
            user=self._user,
            fresh=operation.record_id is None,
            details=operation.details,
            masters={
                name: RecordAddress(self._tenant, number, fields[name])
                for name, number in self._masters.items()
                if fields.get(name) is not None
            },
        )


def _check_work(collection: RecordCollection, operations: Sequence[RecordOperation]) -> None:
    formulas = len(collection.schema.formulas)
    work = sum(
        1 + (len(one.details) if one.write is RecordWrite.DELETE else formulas)
        for one in operations
    )
    if work > MAX_ATOMIC_WORK:
        limit = f"at most {MAX_ATOMIC_WORK:,} records, details and formulas together"
        raise InvalidError(
            "items", f"{limit}, as the batch is atomic; there are {work:,}: send fewer at a time"
        )


def _makes_record(message: Prepared) -> bool:
    """Return whether a message may create a record."""
    creates = {RecordWrite.CREATE, RecordWrite.UPSERT}
    return isinstance(message, SaveRecord) and message.write in creates


def _none_saved(prepared: Sequence[Prepared]) -> list[RecordWriting]:
    """Return the refusals of a batch, and that because of them nothing else was saved."""
    others = refused(RecordRefusal.BATCH_REFUSED)
    return [
        one
        if isinstance(one, RecordWriting) and isinstance(one.reply, RecordRefused)
        else RecordWriting(_id_of(one), others)
        for one in prepared
    ]


def _id_of(one: Prepared) -> str:
    return one.record_id if isinstance(one, RecordWriting) else one.address.record_id


def _is_outdated(reply: WriteReply) -> bool:
    return isinstance(reply, RecordRefused) and reply.refusal is RecordRefusal.COLLECTION_CHANGED
