"""How many modules a request crosses before its shard handles it."""

import json
import subprocess
import sys

import pytest

MAX_MODULES = 22


@pytest.mark.parametrize("kind", ["callback", "event"])
def test_a_callback_crosses_few_modules(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.walk", kind, "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ingress"][0] == "serve_app.http.raw_route"
    assert found["shard"][-1] == "actors.waits.shard"
    modules = {*found["ingress"], *found["shard"]}
    assert len(modules) <= MAX_MODULES, sorted(modules)
