"""The database of commands that work on it directly, without the HTTP API.

The drivers are imported when a database is opened: the help of a command needs none.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.shell.context import DATA_DIR, DataDir
from cli.shell.errors import CommandError, as_sentence
from cli.shell.options import option

if TYPE_CHECKING:
    from storage.postgres.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    database_url: str | None = option(
        "PostgreSQL to use; that of the local instance if not given.",
        secret=True,
        envvar="MUSTER_DATABASE_URL",
    )
    data_dir: DataDir = DATA_DIR

    def dsn(self) -> str:
        """Return the address that was given, or that of the instance on the data folder."""
        if self.database_url:
            return self.database_url
        from host.postgres import embedded  # noqa: PLC0415

        server = embedded.running(self.data_dir)
        if server is None:
            raise CommandError(
                f"No PostgreSQL runs on {self.data_dir}: start Muster with `muster up` (it "
                "migrates by itself), or name a database with --database-url."
            )
        return server.dsn

    @asynccontextmanager
    async def open(self, name: str, max_size: int = 1) -> AsyncIterator["Pool"]:
        """Open a database whose schema is up to date; every error becomes one sentence."""
        from storage.postgres.pool import (  # noqa: PLC0415
            CONNECTION_ERRORS,
            PoolOptions,
            open_pool,
        )
        from storage.postgres.schema_check import SchemaMismatchError  # noqa: PLC0415

        try:
            pool = await open_pool(PoolOptions(dsn=self.dsn(), name=name, max_size=max_size))
            try:
                yield pool
            finally:
                await pool.close()
        except SchemaMismatchError as error:
            raise CommandError(as_sentence(error)) from error
        except CONNECTION_ERRORS as error:
            raise CommandError(f"The database does not answer: {error}.") from error
