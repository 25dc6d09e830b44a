"""`muster up --kafka embedded`: the broker comes, is told to others, and goes with the product."""

import os
import signal

import psutil
import pytest

from host.instance import read_instance
from host.kafka.broker import BrokerKind, is_answering, running_broker
from host.paths import instance_paths
from host.processes import find_process
from tests.support.kafka import runtime_or_reason
from tests.support.product import Product, until


@pytest.mark.ends_instance
def test_an_embedded_broker_comes_and_goes_with_the_product(dedicated: Product) -> None:
    places = instance_paths(dedicated.data_dir)
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
    os.kill(dedicated.pid, signal.SIGKILL)
    until("the host is gone", lambda: not psutil.pid_exists(dedicated.pid))
    assert find_process(broker.process) is not None
    assert "Stopped its Kafka." in dedicated.cli("down").stdout
    assert find_process(broker.process) is None
    assert running_broker(places.kafka) is None
