"""`muster migrate`: the schema of an external or a running database."""

from pathlib import Path
from typing import Annotated

import asyncpg
import typer
from rich.status import Status

from cli.shell.context import DATA_DIR, DataDir, JsonFlag, command, err, out, print_json
from cli.shell.errors import CommandError
from core.shared.errors import MusterError
from host.postgres import embedded
from storage.postgres import migrate as migrations
from storage.postgres.pool import CONNECTION_ERRORS


@command
async def migrate(
    database_url: Annotated[
        str | None,
        typer.Option(
            envvar="MUSTER_DATABASE_URL",
            help="PostgreSQL to migrate; that of the local instance if not given.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is missing.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: JsonFlag = False,
) -> None:
    """Bring the database schema up to date.

    `muster up` does this by itself. It is for databases that are prepared before a deployment, and
    may run beside a Muster of this version or the one before: it holds up nobody for long.
    """
    dsn = database_url or local_dsn(data_dir)
    try:
        with Status("Migrating …", console=err):
            if dry_run:
                names = await migrations.pending(dsn)
            else:
                options = migrations.MigrationOptions(progress=err.print)
                names = await migrations.migrate(dsn, options)
    except MusterError as error:
        raise CommandError(_sentence(str(error))) from error
    except (asyncpg.ClientConfigurationError, ValueError) as error:
        raise CommandError(f"The address of the database is not valid: {error}.") from error
    except CONNECTION_ERRORS as error:
        raise CommandError(f"Cannot reach the database: {error}.") from error
    except asyncpg.PostgresError as error:
        raise CommandError(f"The database refused: {error}.") from error
    if as_json:
        print_json({"pending" if dry_run else "applied": names})
        return
    verb = "Would apply" if dry_run else "Applied"
    for name in names:
        out.print(f"{verb} {name}")
    if not names:
        out.print("The schema is up to date.")


def local_dsn(data_dir: Path) -> str:
    """The database of the instance that runs on a data folder."""
    try:
        server = embedded.running(data_dir)
    except embedded.EmbeddedPostgresError as error:
        raise CommandError(_sentence(str(error))) from error
    if server is None:
        raise CommandError(
            f"No PostgreSQL runs on {data_dir}: start Muster with `muster up` (it migrates by "
            "itself), or name a database with --database-url."
        )
    return server.dsn


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
