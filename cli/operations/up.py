"""`muster up`: PostgreSQL, schema, first key, Kafka, Ray, the actors and the HTTP API, in order."""

import asyncio
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from actors.runtime.names import SUPERVISOR, dispatch_pool_name, expected_actors
from cli.operations.haproxy_command import proxy_limits_of
from cli.shell.context import JsonFlag, err, out, print_json_line, single_command
from cli.shell.instance import KEY_FILE
from cli.shell.options import option
from core.shared.config import Config, Placement
from core.shared.errors import MusterError
from host.detach import spawn_detached
from host.instance import HostInstance
from host.kafka.broker import kill_kafka
from host.kafka.selection import EMBEDDED, kafka_up, load_settings, prefetch_jars
from host.lifecycle import announce, claim, kill, ray_up, watch
from host.paths import InstancePaths, instance_paths
from host.postgres import embedded
from host.provision import prepare_database
from host.ray.node import NodeOptions, RayNode
from host.ray.serving import serve
from host.signals import StopRequested, stop_on_signals
from settings.settings import Settings
from storage.encryption import cipher, key_file
from storage.encryption.keys import WrongKeyError

GreetUser: TypeAlias = Callable[[HostInstance, str | None], None]
READINESS_PATH = "/actuator/health/readiness"
# Actors that every instance has, beside those that its configuration tells.
UNLISTED = (SUPERVISOR, dispatch_pool_name(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpFlags:
    """What may be given on the command line; everything else is a MUSTER_* variable."""

    host: str | None = option("Address to listen on; 127.0.0.1 if not given.")
    port: int | None = option("Port to listen on; 8000 if not given.")
    data_dir: Path | None = option("Data folder; .muster if not given.")
    shards: int | None = option("Shards; one per two cores if not given.")
    placement: Placement | None = option(
        "Actors per correlation: shared shards, or one each; sharded if not given."
    )
    kafka: str | None = option(
        "Start a broker, use none, or use this one; MUSTER_KAFKA_BOOTSTRAP if not given.",
        metavar="embedded|off|HOST:PORT",
    )
    dashboard: bool | None = option("Start Ray's dashboard, on loopback.", "--dashboard")


@single_command("muster up --port 8000")
def up(
    flags: UpFlags,
    detach: bool = option("Run in the background.", "--detach", default=False),
    as_json: JsonFlag = False,
    quiet: bool = option("", "--quiet", default=False, hidden=True),
) -> None:
    """Start Muster here: PostgreSQL, Ray, the actors and the HTTP API. Ctrl-C stops it."""
    given = asdict(flags)
    settings = load_settings(given, given.pop("kafka"))
    if detach:
        _run_detached(settings, flags, as_json=as_json)
        return
    try:
        _run_here(settings, flags.kafka, None if quiet else partial(_greet, as_json=as_json))
    except StopRequested:
        err.print("Stopped.")


def _run_detached(settings: Settings, flags: UpFlags, *, as_json: bool) -> None:
    if flags.kafka == EMBEDDED:
        prefetch_jars(settings, _say)
    # Quiet, because its output goes to a log file, which must not show the key.
    command = [sys.executable, "-m", "cli.main", "up", "--quiet"]
    for name, value in asdict(flags).items():
        if value is True:
            command.append(f"--{name.replace('_', '-')}")
        elif value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    instance = spawn_detached(command, settings.data_dir)
    _greet(instance, _key_of(instance_paths(settings.data_dir)), as_json=as_json)


def _run_here(settings: Settings, kafka: str | None, greet: GreetUser | None) -> None:
    options = NodeOptions(
        host=settings.host,
        port=settings.port,
        dashboard=settings.dashboard,
        bounds=proxy_limits_of(settings),
    )
    paths = instance_paths(settings.data_dir)
    if settings.plain_text_warning is not None:
        _say(settings.plain_text_warning)
    with (
        stop_on_signals(partial(_kill, paths)) as signals,
        claim(settings.data_dir, options, _say),
        _database(settings, paths) as dsn,
    ):
        with _keys(settings.to_config(dsn, paths.secret_key)):
            _provision(dsn, paths)
        with kafka_up(settings, paths, kafka, _say) as (connected, link):
            config = connected.to_config(dsn, paths.secret_key)
            crew = replace(options, actors=len(expected_actors(config)) + len(UNLISTED))
            with ray_up(paths, crew, signals, _say) as node:
                _serve(connected, config, node)
                instance = announce(paths, node, link)
                if greet is not None:
                    greet(instance, _key_of(paths))
                watch(node)


def _serve(settings: Settings, config: Config, node: RayNode) -> None:
    started = time.monotonic()
    from actors.client import begin  # noqa: PLC0415 - imports Ray, which reads the flags
    from serve_app.app import make_app  # noqa: PLC0415

    # The first replica would see to it, but seconds later: by then they are there.
    begin(config)
    serve(node, make_app(settings, config), probe=READINESS_PATH)
    _say(f"The actors and the HTTP API are up ({time.monotonic() - started:.1f} s)")


def _kill(paths: InstancePaths) -> None:
    """End everything at once, at a second Ctrl-C; Postgres recovers at the next start."""
    kill(paths)
    kill_kafka(paths)
    with suppress(MusterError):
        embedded.stop(paths.data_dir, mode="immediate")


@contextmanager
def _database(settings: Settings, paths: InstancePaths) -> Iterator[str]:
    """Yield the address of the configured PostgreSQL, or start one for as long as Muster runs."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    started = time.monotonic()
    server = embedded.start(paths.data_dir)
    try:
        _say(f"PostgreSQL is up ({time.monotonic() - started:.1f} s)")
        yield server.dsn
    finally:
        embedded.stop(paths.data_dir)
        _say("PostgreSQL is down")


@contextmanager
def _keys(config: Config) -> Iterator[None]:
    """Install the keys that encrypt secrets, and create the key file of a new instance.

    The new file is removed again if the database turns out to be encrypted with another key.
    """
    file = config.secret_key_file
    is_new = file is not None and key_file.ensure(Path(file))
    cipher.configure(config)
    try:
        yield
    except WrongKeyError:
        if file is not None and is_new:
            Path(file).unlink()
        raise
    if is_new:
        _say(f"A new key encrypts secrets: back up {file} apart from the database")


def _provision(dsn: str, paths: InstancePaths) -> None:
    done = asyncio.run(prepare_database(dsn, _key_of(paths), err.print))
    if done.migrations:
        _say(f"The schema is up to date ({', '.join(done.migrations)})")
    if done.new_key is not None:
        key_file.write_private(paths.data_dir / KEY_FILE, done.new_key + "\n")
        _say(f"Created the first tenant and its admin key ({paths.data_dir / KEY_FILE})")


def _key_of(paths: InstancePaths) -> str | None:
    try:
        return (paths.data_dir / KEY_FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None


def _greet(instance: HostInstance, key: str | None, *, as_json: bool) -> None:
    url = instance.url
    if as_json:
        kafka = instance.kafka and instance.kafka.bootstrap
        print_json_line({"url": url, "key": key, "pid": instance.pid, "kafka": kafka})
        return
    body = '{"nodeId":"pay","data":{"apiCall":{"url":"http://127.0.0.1:9000/pay"},"timeout":60}}'
    out.print(f"\n  Muster   {url}   (API: {url}/docs)", markup=False, soft_wrap=True)
    if instance.kafka is not None:
        which = f"   ({instance.kafka.broker})" if instance.kafka.broker else ""
        out.print(f"  Kafka    {instance.kafka.bootstrap}{which}", markup=False, soft_wrap=True)
    out.print(f"  Key      {key}\n", markup=False, soft_wrap=True)
    out.print("  Register a wait state:\n", markup=False)
    out.print(
        f"  curl -s {url}/api/wait-states -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{body}'\n",
        markup=False,
        soft_wrap=True,
    )
    out.print(f"  Or watch a demo:  {_command()} demo\n", markup=False, soft_wrap=True)


def _command() -> str:
    """Return how `muster` is called from this terminal."""
    if shutil.which("muster"):
        return "muster"
    return shlex.quote(os.path.relpath(Path(sys.executable).with_name("muster")))


def _say(sentence: str) -> None:
    err.print(f"• {sentence}", markup=False, soft_wrap=True)
