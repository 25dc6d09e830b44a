"""`muster migrate`: the schema of an external or a running database."""

from rich.status import Status

from cli.shell.context import JsonFlag, err, print_result, single_command
from cli.shell.database import DatabaseOptions
from cli.shell.errors import CommandError
from cli.shell.options import option
from storage.postgres import migrate as migrations
from storage.postgres.error_class import DATABASE_ERRORS
from storage.postgres.pool import CONNECTION_ERRORS, INVALID_DSN_ERRORS


@single_command("muster migrate --dry-run")
async def migrate(
    database: DatabaseOptions,
    dry_run: bool = option(
        "Only list the migrations that are missing.", "--dry-run", default=False
    ),
    as_json: JsonFlag = False,
) -> None:
    """Bring the database schema up to date.

    `muster up` does this by itself. Use the command to prepare a database before a deployment. It
    may run beside a Muster of this version or the one before, which it blocks only briefly.
    """
    dsn = database.dsn()
    try:
        with Status("Migrating …", console=err):
            if dry_run:
                names = await migrations.pending(dsn)
            else:
                options = migrations.MigrationOptions(progress=err.print)
                names = await migrations.migrate(dsn, options)
    except INVALID_DSN_ERRORS as error:
        raise CommandError(f"The address of the database is not valid: {error}.") from error
    except CONNECTION_ERRORS as error:
        raise CommandError(f"Cannot reach the database: {error}.") from error
    except DATABASE_ERRORS as error:
        raise CommandError(f"The database refused the migration: {error}.") from error
    verb = "Would apply" if dry_run else "Applied"
    lines = [f"{verb} {name}" for name in names] or ["The schema is up to date."]
    document = {"pending" if dry_run else "applied": names}
    print_result(document, "\n".join(lines), as_json=as_json)
