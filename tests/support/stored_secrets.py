"""Every kind of secret that is stored: how to store it, plain as well, and how to read it back."""

from typing import Any

import msgspec

from core.dispatch.job import JobKey
from core.gathers.gather import Resource
from core.records.collection import CollectionDefinition
from core.records.field import FieldDefinition, FieldType
from core.records.record import RecordAddress
from storage.access import keys as access
from storage.dispatch import subscriptions, webhook_secrets
from storage.dispatch.job_queue import JobQueue
from storage.encryption import reencryption
from storage.encryption.cipher import KeyRing, install, is_encrypted, key_ring
from storage.encryption.secret_values import encrypt_record_field, record_field_at
from storage.entities.transactions import flush_transactions
from storage.gathers import resources
from storage.postgres.pool import Pool
from tests.support.dispatch import JobFactory
from tests.support.records import create_collection, created, transaction
from tests.support.subscriptions import subscription

MARKER = "hunter22hunter22hunter22"
OLD, NEW, STRANGE = b"o" * 32, b"n" * 32, b"s" * 32
SECRET_FIELDS = ("card", "pin")
CARDS = CollectionDefinition(
    name="cards",
    fields=(
        FieldDefinition(name="name", type=FieldType.STRING),
        *(FieldDefinition(name=name, type=FieldType.ENCRYPTED) for name in SECRET_FIELDS),
    ),
)
AUTH = {"type": "bearer", "token": MARKER}
HEADERS = {"X-Key": MARKER}


def use(*keys: bytes) -> None:
    install(KeyRing(lambda: tuple(keys)))


async def store(pool: Pool, jobs: JobFactory) -> str:
    """One of each secret there is; the id of the job."""
    one = subscription(jobs.tenant, headers=HEADERS, auth=AUTH)
    await subscriptions.create(pool, one, MARKER.encode())
    await resources.put(
        pool,
        jobs.tenant,
        "shop",
        Resource(url="http://127.0.0.1:9/", headers=HEADERS, authorization=f"Bearer {MARKER}"),
    )
    await webhook_secrets.own(pool, jobs.tenant)
    await webhook_secrets.rotate(pool, jobs.tenant, webhook_secrets.OWN, MARKER.encode(), 60.0)
    await access.signing_secrets(pool, "callback", MARKER.encode())
    number = await create_collection(pool, jobs.tenant, CARDS)
    address = RecordAddress(jobs.tenant, number, "r1")
    record = created(
        address, name="Jo", **{f: encrypt_record_field(address, f, MARKER) for f in SECRET_FIELDS}
    )
    async with pool.acquire() as conn:
        assert await flush_transactions(conn, [transaction((None, record))]) == set()
    return await jobs.post(headers=HEADERS, auth=AUTH)


async def store_plain(pool: Pool, jobs: JobFactory) -> str:
    """The same as it was stored before there was encryption."""
    job_id = await store(pool, jobs)
    secret = MARKER.encode()
    headers, auth = (msgspec.json.encode(value).decode() for value in (HEADERS, AUTH))
    definition = Resource(
        url="http://127.0.0.1:9/", headers=HEADERS, authorization=f"Bearer {MARKER}"
    )
    await pool.execute("update webhook_secrets set secret = $1", secret)
    await pool.execute("update signing_secrets set secret = $1", secret)
    await pool.execute("update subscriptions set headers = $1, auth = $2", headers, auth)
    await pool.execute("update dispatch_jobs set headers = $1, auth = $2", headers, auth)
    text = msgspec.json.encode(definition).decode()
    await pool.execute("update resources set definition = $1", text)
    plain = msgspec.json.encode(dict.fromkeys(SECRET_FIELDS, MARKER)).decode()
    await pool.execute("update records set data = data || $1::jsonb", plain)
    return job_id


async def read_all(pool: Pool, jobs: JobFactory, job_id: str) -> list[Any]:
    """Every secret as those who need it read it."""
    key = subscriptions.SubscriptionKey(jobs.tenant, "sub_orders")
    profile = (await subscriptions.profiles(pool, [key]))[key]
    found = await resources.find(pool, jobs.tenant, ["shop"])
    await pool.execute("update dispatch_jobs set status = 'QUEUED'")
    claimed = await JobQueue(pool, jobs.pool_no, "test", 60.0).claim([JobKey(jobs.tenant, job_id)])
    own = await webhook_secrets.own_of(pool, [jobs.tenant])
    return [
        (claimed[0].headers, claimed[0].auth, claimed[0].unreadable),
        (profile.headers, profile.auth, profile.secrets),
        (found["shop"].headers, found["shop"].authorization),
        own[jobs.tenant][0],
        (await access.signing_secrets(pool, "callback", b"unused")),
        await read_record(pool, jobs.tenant),
    ]


async def read_record(pool: Pool, tenant: int) -> dict[str, str]:
    number, text = await pool.fetchrow("select collection_no, data::text from records")
    data: dict[str, str] = msgspec.json.decode(text)
    for name in SECRET_FIELDS:
        if is_encrypted(data[name]):
            place = record_field_at(tenant, number, "r1", name)
            data[name] = key_ring().decrypt(data[name], place).decode()
    return data


EVERYTHING = [
    (HEADERS, AUTH, None),
    (HEADERS, AUTH, (MARKER.encode(),)),
    (HEADERS, f"Bearer {MARKER}"),
    MARKER.encode(),
    [MARKER.encode()],
    {"name": "Jo", "card": MARKER, "pin": MARKER},
]


async def counts(pool: Pool) -> dict[str, int]:
    """How many secrets are under which key, in all."""
    found: dict[str, int] = {}
    for table in (await reencryption.count_by_key(pool)).values():
        for key, number in table.items():
            found[key] = found.get(key, 0) + number
    return found
