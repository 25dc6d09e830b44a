"""Which instance may be broken: one that `muster up` started on this machine, and no other."""

import os
from pathlib import Path

from cli.shell.errors import CommandError
from cli.shell.instance import find_instance
from host.client import running_instance
from host.errors import HostError
from host.instance import HostStage
from host.postgres import embedded
from tools.chaos.fault import LocalInstance


def find_local_instance(url: str | None, key: str | None, data_dir: Path) -> LocalInstance:
    """Find the running instance of a data folder; refuse one that is not on this machine."""
    try:
        host = running_instance(data_dir)
    except HostError as error:
        raise CommandError(str(error)) from error
    found = find_instance(url, key, data_dir)
    if found.url != host.url.rstrip("/") or not found.is_local:
        raise CommandError(
            f"{found.url} is not the instance of {data_dir} ({host.url}): chaos breaks only what "
            "`muster up` started on this machine."
        )
    if host.stage is not HostStage.UP:
        raise CommandError(f"{host.url} is {host.stage}: try again once it is up.")
    if found.key is None:
        raise CommandError(f"There is no admin key in {data_dir}: give one with --key.")
    server = embedded.running(data_dir)
    dsn = server.dsn if server else os.environ.get("MUSTER_DATABASE_URL")
    if not dsn:
        raise CommandError(
            "This instance uses a PostgreSQL of its own: set MUSTER_DATABASE_URL, so that what "
            "it keeps can be compared with what it said."
        )
    return LocalInstance(
        url=found.url,
        key=found.key,
        dsn=dsn,
        data_dir=data_dir,
        run_dir=host.run_dir,
        embedded=server is not None,
    )
