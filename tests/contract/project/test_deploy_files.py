"""The files that Ray reads are ones that Ray takes."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.operations.haproxy_command import MAX_PATH_BYTES
from core.shared.errors import InvalidError
from host.paths import InstancePaths
from host.proxy.haproxy import LAUNCHER
from host.proxy.haproxy_limits import MAX_CONNECTIONS
from host.ray import flags
from host.ray.flags import ProxySetup

ROOT = Path(__file__).parents[3]


def document(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_ray_up_takes_cluster_yaml() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(document("cluster.yaml"))
    validate_config(config)
    assert config["provider"]["type"] == "local"
    assert len(config["provider"]["worker_ips"]) == config["max_workers"]


def test_what_cluster_yaml_mounts_exists_or_is_made_by_its_instructions() -> None:
    mounted = set(document("cluster.yaml")["file_mounts"].values())
    assert {name for name in mounted if not (ROOT / name).exists()} <= {"deploy/ray_token"}


def test_the_dashboard_of_a_cluster_stays_on_loopback() -> None:
    commands = document("cluster.yaml")["head_start_ray_commands"]
    heads = [command for command in commands if "--head" in command]
    assert heads
    assert all("--dashboard-host=127.0.0.1" in command for command in heads)


def test_every_ray_process_of_a_cluster_gets_the_environment() -> None:
    config = document("cluster.yaml")
    starts = config["head_start_ray_commands"] + config["worker_start_ray_commands"]
    for command in starts:
        if "ray start" in command or "deploy" in command:
            assert ". ~/muster.env" in command


def test_serve_deploy_takes_serve_yaml() -> None:
    from ray.serve.schema import ServeDeploySchema

    schema = ServeDeploySchema.model_validate(document("deploy/serve.yaml"))
    assert [app.name for app in schema.applications] == ["muster"]


def test_the_import_path_of_serve_yaml_is_a_builder() -> None:
    from importlib import import_module

    module, _, name = document("deploy/serve.yaml")["applications"][0]["import_path"].partition(":")
    assert callable(getattr(import_module(module), name))


def environment() -> dict[str, str]:
    """What a shell makes of deploy/cluster.env in the home folder /home/muster."""
    show = "set -a && . deploy/cluster.env && env -0"
    done = subprocess.run(
        ["sh", "-c", show],
        cwd=ROOT,
        env={"HOME": "/home/muster", "PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(one.split("=", 1) for one in done.stdout.split("\0") if one)


def test_haproxy_of_a_cluster_is_the_guarded_one() -> None:
    """All that Ray would put into a folder for everybody lies in the one that is written for it."""
    given = environment()
    folder = Path("/home/muster/muster-front")
    front = ProxySetup(folder / LAUNCHER, 1, range(2, 3))
    own = flags._front_flags(InstancePaths(Path("/d"), Path("/run/muster")), front)
    named = {name: text for name, text in own.items() if text.startswith("/")}
    assert len(named) == 6
    for name, text in named.items():
        assert given[name] == text.replace("/run/muster/h", str(folder))
    assert int(given["RAY_SERVE_HAPROXY_MAXCONN"]) == MAX_CONNECTIONS
    assert len(str(folder)) <= MAX_PATH_BYTES


def test_ray_of_a_cluster_serves_no_metrics_and_wants_its_token() -> None:
    given = environment()
    assert given["RAY_AUTH_MODE"] == "token"
    assert given["RAY_enable_metrics_collection"] == "0"
    assert given["RAY_SERVE_HAPROXY_METRICS_ENABLED"] == "0"
    for name in ("AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT"):
        assert int(given[name]) > 65_535  # there is no switch, but no such port either


def test_the_guarded_haproxy_is_written_before_ray_starts() -> None:
    commands = document("cluster.yaml")["setup_commands"]
    assert commands[-1].endswith("muster haproxy ~/muster-front")
    assert ". ~/muster.env" in commands[-1]


def test_the_secrets_of_a_cluster_are_copied_once_and_closed() -> None:
    config = document("cluster.yaml")
    secret = {"~/muster.env": "deploy/cluster.env", "~/.ray/auth_token": "deploy/ray_token"}
    assert secret.items() <= config["file_mounts"].items()
    assert {*secret.values(), ".env"} <= set(config["rsync_exclude"])
    assert config["setup_commands"][0].startswith(f"chmod 600 {' '.join(secret)}")


def test_a_cluster_without_a_public_url_a_database_or_a_key_refuses_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from serve_app.app import build

    for name in ("MUSTER_PUBLIC_URL", "MUSTER_DATABASE_URL", "MUSTER_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidError, match="MUSTER_DATABASE_URL: is required on a cluster"):
        build({"public_url": "https://muster.example"})
    with pytest.raises(InvalidError, match="MUSTER_PUBLIC_URL: is required on a cluster"):
        build({"database_url": "postgresql://nowhere/muster"})
    with pytest.raises(InvalidError, match="MUSTER_SECRET_KEY: is required on a cluster"):
        build({"database_url": "postgresql://nowhere/muster", "public_url": "https://m.example"})


def test_a_cluster_calls_no_loopback_and_takes_no_samples_whatever_the_host_says() -> None:
    from serve_app.app import build

    application = build(
        {
            "database_url": "postgresql://nowhere/muster",
            "public_url": "http://127.0.0.1:8000",
            "secret_key": "a" * 43 + "=",
            "host": "127.0.0.1",
        }
    )
    config, options = application._bound_deployment.init_args
    assert config.call_networks == ()
    assert options.sample_receiver is False
