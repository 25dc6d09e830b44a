"""The process of the mock broker: prints its address and runs until it is ended."""

import signal
import sys

PREFIX = "bootstrap: "


def main() -> int:
    from confluent_kafka import Producer  # noqa: PLC0415  only in this process

    # The mock cluster lives inside a client; no packet goes to the servers that this one names.
    client = Producer({"bootstrap.servers": "127.0.0.1:0", "test.mock.num.brokers": 1})
    broker = next(iter(client.list_topics(timeout=30).brokers.values()))
    sys.stdout.write(f"{PREFIX}{broker.host}:{broker.port}\n")
    sys.stdout.flush()
    signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
