"""How the `muster` command fails: one sentence, an exit code, nothing half done."""

import contextlib
import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.commands import WaitIds, refused
from tests.support.product import BOTH, Product, free_port, run_cli

CALL = json.dumps({"apiCall": BOTH["apiCall"], "timeout": 60})
# Takes from root what lets it write anywhere (CAP_DAC_OVERRIDE); others never had it.
OBEYING_PERMISSIONS = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("wait", "register", '{"apiCall": {"url": "http://x/"}, "timeut": 3}'), 1, "data.timeut"),
        (
            ("wait", "register", '{"timeout": "soon"}'),
            1,
            'data.timeout: a number, got "soon"',
        ),
        (("wait", "register", "{"), 2, "The argument is not JSON"),
        (("wait", "register", "[]"), 2, "Expected a JSON object"),
        (("wait", "register", "@nowhere.json"), 2, "Cannot read nowhere.json"),
        (("wait", "show", "nobody", "nothing"), 1, "Wait state nobody:nothing does not exist."),
        (("wait", "explain", "nobody", "nothing"), 1, "Wait state nobody:nothing does not exist."),
        (("wait", "cancel", "nobody", "nothing"), 1, "nobody:nothing"),
        (("wait", "show", "e", "c", "--wait", "90s"), 2, "at most 60s"),
        (("wait", "show", "e", "c", "--wait", "soon"), 2, "'soon' is not a duration"),
        (("wait", "list", "--cursor", "zzz"), 1, "cursor: the nextCursor of an earlier page"),
        (("tail", "nobody", "nothing"), 1, "Wait state nobody:nothing does not exist."),
        (("send", "e", "c", "--data", "{"), 2, "The argument is not JSON"),
        (("send", "e", "c", "--topic", "t", "--service", "s"), 2, "--topic cannot be combined"),
        (("send", "e", "c", "--token", "forged"), 1, "forged, broken or over"),
        (("send", "e", "c", "--service", "two words"), 1, "service: must match"),
        (("keys", "revoke", "nobody"), 1, "There is no key nobody"),
        (("keys", "create", "n", "--expires-in", "never"), 2, "'never' is not a duration"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)
def test_what_cannot_work_is_one_sentence(
    product: Product, arguments: tuple[str, ...], code: int, told: str
) -> None:
    assert told in refused(product.cli(*arguments, check=False), code)


def test_a_wait_that_is_registered_otherwise_or_has_ended_is_told(product: Product) -> None:
    ids = WaitIds.new()
    product.register(**ids.document)
    other = product.cli("wait", "register", CALL, *ids.options, check=False)
    assert refused(other).startswith(f"{ids[0]}:{ids[1]} is registered")
    product.callback(ids.document)
    product.event(ids.document)
    ended = product.cli("wait", "cancel", *ids, check=False)
    assert refused(ended) == "The wait has already ended as completed."


@pytest.mark.parametrize(
    "arguments", [("frobnicate",), ("wait", "list", "--limit", "0"), ("send", "only-one-id")]
)
def test_what_is_typed_wrong_ends_with_2(product: Product, arguments: tuple[str, ...]) -> None:
    done = product.cli(*arguments, check=False)
    assert done.returncode == 2
    assert "Usage: muster" in done.stderr


def test_the_admin_key_is_shown_to_its_own_instance_only(product: Product) -> None:
    """Whoever names another address must name a key, too."""
    seen: list[str | None] = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with serving(Stranger) as url:
        refused(product.cli("wait", "list", "--url", url, check=False))
    assert seen == [None]


def test_nothing_runs_here(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    env = {"MUSTER_URL": url, "MUSTER_KEY": "mk_a_b"}
    for command in (("wait", "list"), ("status",), ("demo",), ("tail", "e", "c")):
        told = refused(run_cli(*command, env=env))
        assert told.startswith(f"Muster is not running at {url}: start it with `muster up`")
    down = run_cli("down", "--data-dir", str(tmp_path))
    assert (down.returncode, down.stdout) == (0, f"Nothing runs on {tmp_path}.\n")


def test_another_program_at_the_address(tmp_path: Path) -> None:
    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None: ...

    with serving(Stranger) as url:
        told = refused(run_cli("wait", "list", "--url", url, "--key", "mk_a_b"))
    assert told == f"{url} does not answer like Muster: is another program there?"


def test_a_wrong_key_or_address(product: Product) -> None:
    env = {"MUSTER_URL": product.url, "MUSTER_DATA_DIR": "/nowhere"}
    assert refused(run_cli("wait", "list", env=env)).startswith("An API key is needed")
    told = refused(run_cli("wait", "list", env=env | {"MUSTER_KEY": "mk_wrong_key"}))
    assert told.startswith("This API key is unknown, expired or revoked.")
    assert "--key" in told
    assert "not an address" in refused(run_cli("wait", "list", "--url", "localhost"), 2)


@pytest.mark.parametrize("detach", [False, True])
def test_a_taken_port(tmp_path: Path, detach: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = ["--data-dir", str(tmp_path), "--port", str(port)]
        done = run_cli("up", *flags, *(["--detach"] if detach else []))
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken. Choose another with --port." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "postgres").exists()


def test_a_data_folder_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("16\n")
    told = refused(run_cli("up", "--data-dir", str(tmp_path), "--port", str(free_port())))
    assert "holds data of PostgreSQL 16, but Muster runs PostgreSQL 18" in told


def test_a_data_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "diary.txt").write_text("dear diary")
    told = refused(run_cli("up", "--data-dir", str(tmp_path), "--port", str(free_port())))
    assert "is not a PostgreSQL data folder" in told
    assert (tmp_path / "postgres" / "diary.txt").read_text() == "dear diary"


@pytest.mark.parametrize("detach", [False, True])
def test_a_data_folder_without_permission(tmp_path: Path, detach: bool) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o500)
    flags = ["--data-dir", str(folder / "data"), "--port", str(free_port())]
    command = [sys.executable, "-m", "cli.main", "up", *flags, *(["--detach"] if detach else [])]
    done = subprocess.run(
        [sys.executable, "-c", OBEYING_PERMISSIONS, *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    told = refused(done)
    assert told.startswith(f"Cannot write to the data folder {folder}/data: permission denied.")
    assert "--data-dir" in told


def test_a_second_instance_on_the_same_folder(product: Product) -> None:
    for detach in ((), ("--detach",)):
        flags = ("--data-dir", str(product.data_dir), "--port", str(free_port()))
        told = refused(run_cli("up", *flags, *detach))
        assert told.startswith(f"Muster already runs on {product.data_dir} (pid {product.pid}, ")
        assert "muster down --data-dir" in told
    assert product.http.get("/actuator/health").json()["status"] == "UP"


@contextlib.contextmanager
def serving(handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Another program that listens on a port of its own."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
