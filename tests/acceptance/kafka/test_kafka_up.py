"""`muster up --kafka embedded`: the broker comes, is told to others, and goes with the product."""

import os
import signal
from pathlib import Path

import psutil

from host.instance import read_instance
from host.kafka.broker import BrokerKind, is_answering, running_broker
from host.paths import instance_paths
from host.processes import find_process
from tests.support.kafka import runtime_or_reason
from tests.support.product import run_cli, running_product, until


def test_an_embedded_broker_comes_and_goes_with_the_product(tmp_path: Path) -> None:
    folder = tmp_path / ".muster"
    places = instance_paths(folder)
    with running_product(folder, "--kafka", "embedded", "--shards", "1") as product:
        broker = running_broker(places.kafka)
        assert broker is not None
        assert is_answering(broker.bootstrap)
        assert broker.kind is (
            BrokerKind.MOCK if isinstance(runtime_or_reason(), str) else BrokerKind.APACHE
        )
        instance = read_instance(places)
        assert instance is not None
        assert instance.kafka is not None
        assert instance.kafka.bootstrap == broker.bootstrap
        assert instance.kafka.broker == broker.describe()
        assert broker.name in places.log.read_text()

        # Killed, the host stops nothing: what it left is stopped by the next `down`.
        os.kill(product.pid, signal.SIGKILL)
        until("the host is gone", lambda: not psutil.pid_exists(product.pid))
        assert find_process(broker.process) is not None
        stopped = run_cli("down", "--data-dir", str(folder))
        assert "Stopped its Kafka." in stopped.stdout
        assert find_process(broker.process) is None
        assert running_broker(places.kafka) is None
