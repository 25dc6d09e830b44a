"""A tenant that has jobs delivered, as its callers see it."""

import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from storage.dispatch import pools
from storage.dispatch.pools import NewPool, PoolRow
from storage.postgres.pool import Pool
from tests.support.product import Product, new_id, until
from tests.support.receiver import Receiver, Target
from tests.support.tenants import in_database

JOBS, GROUPS, MONITORING = "/api/dispatch-jobs", "/api/dispatch-groups", "/monitoring"


@dataclass
class DispatchApi:
    """Posts jobs to a receiver of its own, through a pool of its own."""

    product: Product
    receiver: Receiver
    pool: str

    @property
    def http(self) -> Any:
        """A client of its key."""
        return self.product.http

    def body(self, target: Target | str, **fields: Any) -> dict[str, Any]:
        """A job to post."""
        url = target if isinstance(target, str) else target.url
        usual = {
            "source": "test",
            "code": "shop:orders:order:ship",
            "targetUrl": url,
            "payload": {"n": 1},
            "dispatchPoolId": self.pool,
        }
        return usual | fields

    def post(self, target: Target | str, **fields: Any) -> dict[str, Any]:
        """Post one; its document."""
        reply = self.http.post(JOBS, json=self.body(target, **fields))
        assert reply.status_code == 201, reply.text
        document: dict[str, Any] = reply.json()
        return document

    def grouped(self, target: Target, group: str, **fields: Any) -> str:
        """Post one of a group that blocks on error; its id."""
        wish = {"messageGroup": group, "mode": "BLOCK_ON_ERROR", **fields}
        job_id: str = self.post(target, **wish)["id"]
        return job_id

    def show(self, job_id: str) -> dict[str, Any]:
        """The job as it is now."""
        reply = self.http.get(f"{JOBS}/{job_id}")
        assert reply.status_code == 200, reply.text
        document: dict[str, Any] = reply.json()
        return document

    def becomes(self, job_id: str, status: str, within: float = 30.0) -> dict[str, Any]:
        """Wait until a job is in this state."""

        def look() -> dict[str, Any] | None:
            shown = self.show(job_id)
            return shown if shown["status"] == status else None

        found: dict[str, Any] = until(f"job {job_id} {status}", look, within)
        return found

    def do(self, job_id: str, verb: str) -> Any:
        """Do something with a job; the answer."""
        return self.http.post(f"{JOBS}/{job_id}/{verb}")

    def group(self, name: str, **params: Any) -> dict[str, Any]:
        """A group as it is now."""
        reply = self.http.get(f"{GROUPS}/{quote(name, safe='')}", params=params)
        assert reply.status_code == 200, reply.text
        document: dict[str, Any] = reply.json()
        return document

    def group_becomes(self, name: str, state: str, within: float = 30.0) -> dict[str, Any]:
        """Wait until a group is in this state."""

        def look() -> dict[str, Any] | None:
            shown = self.group(name)
            return shown if shown["state"] == state else None

        found: dict[str, Any] = until(f"group {name} {state}", look, within)
        return found

    def do_group(self, name: str, verb: str, **options: Any) -> Any:
        """Do something with a group; the answer."""
        return self.http.post(f"{GROUPS}/{quote(name, safe='')}/{verb}", **options)

    def stats(self, which: str = "pool-stats") -> dict[str, Any]:
        """What is told of its own pool."""
        items = self.http.get(f"{MONITORING}/{which}").json()["items"]
        name = "poolCode" if which == "pool-stats" else "name"
        found: dict[str, Any] = next(item for item in items if item[name] == self.pool)
        return found

    def suspend(self, pool: str) -> None:
        """Let a pool of its own wait."""
        in_database(self.product, lambda db: self._set(db, pool, pools.suspend))

    async def _set(self, db: Pool, pool: str, how: Any) -> None:
        assert isinstance(await how(db, await tenant_of(db, self.product), pool), PoolRow)


async def tenant_of(db: Pool, product: Product) -> int:
    """The number of a tenant, by its key."""
    prefix = product.key.split("_")[1]
    tenant: int = await db.fetchval("select tenant_id from api_keys where prefix = $1", prefix)
    return tenant


def make_pool(product: Product, **fields: Any) -> str:
    """A pool of a tenant's own; its code."""
    code = f"p-{new_id()[:12]}"

    async def make(db: Pool) -> None:
        new = NewPool(pool_id=f"dpl_{secrets.token_hex(6)}", code=code, name=code, **fields)
        made = await pools.create(db, await tenant_of(db, product), new, 1_000)
        assert isinstance(made, PoolRow)

    in_database(product, make)
    return code
