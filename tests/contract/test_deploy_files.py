"""The files that Ray reads are ones that Ray takes."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


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
