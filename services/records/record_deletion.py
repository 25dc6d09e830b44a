"""Deletes records, and with them the details that belong to them.

Up to a hundred details are deleted in the same transaction as their master. More are deleted before
it, in steps: should the request end early, the master is still there, and the next one goes on.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from core.records.messages import RecordRefusal, RecordRefused, RecordSaved, RecordWrite, refused
from core.records.record import RecordAddress
from core.shared.errors import ConflictError
from services.records.record_collections import DetailLink, RecordCollection, RecordCollections
from services.records.record_writer import RecordOperation, RecordWriter, WriteReply

MAX_DETAILS = 100
"""Details that are deleted in the transaction of their master."""
MAX_BATCH_DETAILS = 5_000
"""Details that go with the records of one batch."""
MAX_STEPS = 20
"""Steps of one request."""
STEP_DETAILS = 500
"""Details that one step deletes."""
MAX_LEVELS = 10
"""Details of details, and so on."""
MAX_SECONDS = 10.0
"""A request that takes longer ends, and the next one goes on."""
MAX_MASTERS = 100
"""Masters whose details one query finds."""

FindDetails = Callable[
    [int, tuple[int, int], Sequence[str], Sequence[str], int], Awaitable[Sequence[tuple[str, str]]]
]
"""Finds masters and details by tenant, by collection and column, and by masters.

The last two are the ids to leave out, and how many details of each master there are at most.
"""
FindVersion = Callable[[int, int, str], Awaitable[int | None]]
"""Returns the version of a record by tenant, collection and id; None if there is none."""


class _Key(NamedTuple):
    collection_no: int
    record_id: str


class _Detail(NamedTuple):
    collection: RecordCollection
    master_id: str
    record_id: str

    @property
    def key(self) -> _Key:
        return _Key(self.collection.collection_no, self.record_id)


class _Caller(NamedTuple):
    tenant: int
    user: str | None
    deadline: float


class RecordDeletion:
    def __init__(
        self,
        collections: RecordCollections,
        writer: RecordWriter,
        find_details: FindDetails,
        find_version: FindVersion,
    ) -> None:
        self._collections = collections
        self._writer = writer
        self._find_details = find_details
        self._find_version = find_version

    async def delete(
        self,
        tenant: int,
        collection: RecordCollection,
        operation: RecordOperation,
        user: str | None,
    ) -> WriteReply:
        """Delete a record and its details.

        Raises:
            ConflictError: Its details cannot be found yet.
        """
        caller = _Caller(tenant, user, time.monotonic() + MAX_SECONDS)
        return await self._delete(caller, collection, operation, frozenset())

    async def _delete(
        self,
        caller: _Caller,
        collection: RecordCollection,
        operation: RecordOperation,
        above: frozenset[_Key],
    ) -> WriteReply:
        """Delete a record and its details, except those that are being deleted `above` it."""
        tenant, record_id = caller.tenant, operation.record_id or ""
        within = above | {_Key(collection.collection_no, record_id)}
        for _ in range(MAX_STEPS):
            if time.monotonic() > caller.deadline:
                break
            found = await self._details_of(tenant, collection, [record_id], within, STEP_DETAILS)
            known = within.union(one.key for one in found)
            if len(found) <= MAX_DETAILS and not await self._have_details(tenant, found, known):
                whole = _with_details(tenant, operation, found)
                (writing,) = await self._writer.write(tenant, collection, [whole], caller.user)
                return writing.reply
            if len(above) == MAX_LEVELS:
                break
            refusal = await self._refuse(tenant, collection, operation)
            if refusal is not None:
                return refusal
            for detail in found:
                step = RecordOperation(RecordWrite.DELETE, detail.record_id)
                reply = await self._delete(caller, detail.collection, step, within)
                if not _is_deleted(reply):
                    return reply
        return refused(RecordRefusal.DETAILS_REMAIN)

    async def _refuse(
        self, tenant: int, collection: RecordCollection, operation: RecordOperation
    ) -> RecordRefused | None:
        """Return why a record cannot be deleted, before its details are."""
        record_id, expected = operation.record_id or "", operation.expected_version
        version = await self._find_version(tenant, collection.collection_no, record_id)
        if version is None:
            return refused(RecordRefusal.RECORD_NOT_FOUND)
        if expected not in {None, version}:
            return refused(RecordRefusal.VERSION_MISMATCH, version=version)
        return None

    async def complete(
        self, tenant: int, collection: RecordCollection, operations: Sequence[RecordOperation]
    ) -> list[RecordOperation] | None:
        """Return operations, each deletion with its details; None if those are too many."""
        deletions = (one for one in operations if one.write is RecordWrite.DELETE)
        masters = list(dict.fromkeys(one.record_id or "" for one in deletions))
        details: dict[str, list[_Detail]] = {}
        count = 0
        for start in range(0, len(masters), MAX_MASTERS):
            some = masters[start : start + MAX_MASTERS]
            found = await self._details_of(tenant, collection, some, (), MAX_DETAILS + 1)
            found = [one for one in found if one.key != (collection.collection_no, one.master_id)]
            count += len(found)
            for one in found:
                details.setdefault(one.master_id, []).append(one)
            is_large = any(len(details.get(one, ())) > MAX_DETAILS for one in some)
            if is_large or count > MAX_BATCH_DETAILS:
                return None
            if await self._have_details(tenant, found, ()):
                return None
        return [
            _with_details(tenant, one, details.get(one.record_id or "", []))
            if one.write is RecordWrite.DELETE
            else one
            for one in operations
        ]

    async def _have_details(
        self, tenant: int, masters: Sequence[_Detail], besides: Iterable[_Key]
    ) -> bool:
        """Return whether details have details themselves, `besides` those that go anyway."""
        by_number: dict[int, list[_Detail]] = {}
        for one in masters:
            by_number.setdefault(one.collection.collection_no, []).append(one)
        for some in by_number.values():
            ids = [one.record_id for one in some]
            if await self._details_of(tenant, some[0].collection, ids, besides, 1):
                return True
        return False

    async def _details_of(
        self,
        tenant: int,
        collection: RecordCollection,
        record_ids: Sequence[str],
        besides: Iterable[_Key],
        limit: int,
    ) -> list[_Detail]:
        """Return up to `limit` details of each record by each field that leads to it.

        A detail that leads to a record by two fields is returned once.
        """
        links = await self._collections.details(tenant, collection.name)
        unfilled = [link.collection.name for link in links if not link.is_filled]
        if unfilled:
            raise ConflictError(f"the index of {unfilled[0]} is being built: try again soon")
        found: dict[tuple[str, _Key], _Detail] = {}
        for link in links:
            for detail in await self._find(tenant, link, record_ids, besides, limit):
                found.setdefault((detail.master_id, detail.key), detail)
        return list(found.values())

    async def _find(
        self,
        tenant: int,
        link: DetailLink,
        record_ids: Sequence[str],
        besides: Iterable[_Key],
        limit: int,
    ) -> list[_Detail]:
        number = link.collection.collection_no
        known = [one.record_id for one in besides if one.collection_no == number]
        found = await self._find_details(tenant, (number, link.slot), record_ids, known, limit)
        return [_Detail(link.collection, *pair) for pair in found]


def _with_details(
    tenant: int, operation: RecordOperation, found: Iterable[_Detail]
) -> RecordOperation:
    details = tuple(RecordAddress(tenant, *one.key) for one in found)
    return operation._replace(details=details)


def _is_deleted(reply: WriteReply) -> bool:
    is_gone = isinstance(reply, RecordRefused) and reply.refusal is RecordRefusal.RECORD_NOT_FOUND
    return is_gone or isinstance(reply, RecordSaved)
