"""`muster up --kafka embedded`: the broker comes, is told to others, and goes with the product."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from host.instance import read_instance
from host.kafka.broker import Kind, answers, running
from host.paths import places_of
from host.processes import find
from tests.support.kafka import runtime_or_reason
from tests.support.product import run_cli, running_product, until


@pytest.mark.timeout(300)
def test_an_embedded_broker_comes_and_goes_with_the_product(tmp_path: Path) -> None:
    folder = tmp_path / ".muster"
    places = places_of(folder)
    with running_product(folder, "--kafka", "embedded", "--shards", "1") as product:
        broker = running(places.kafka)
        assert broker is not None
        assert answers(broker.bootstrap)
        assert broker.kind is (Kind.MOCK if isinstance(runtime_or_reason(), str) else Kind.APACHE)
        instance = read_instance(places)
        assert instance is not None
        assert instance.kafka is not None
        assert instance.kafka.bootstrap == broker.bootstrap
        assert instance.kafka.broker == broker.describe()
        assert broker.name in places.log.read_text()

        # Killed, the host stops nothing: what it left is stopped by the next `down`.
        os.kill(product.pid, signal.SIGKILL)
        until("the host is gone", lambda: not psutil.pid_exists(product.pid))
        assert find(broker.process) is not None
        stopped = run_cli("down", "--data-dir", str(folder))
        assert "Stopped its Kafka." in stopped.stdout
        assert find(broker.process) is None
        assert running(places.kafka) is None
