"""What the dispatch benchmark counts, and what its peers send."""

import orjson
import pytest
from standardwebhooks.webhooks import Webhook

from bench.dispatch import most_within
from bench.peers.senders import SECRET, marked, signed


@pytest.mark.parametrize(
    ("times", "most"),
    [
        ([], 0),
        ([1.0], 1),
        ([1.0, 1.5, 1.9, 2.0], 3),  # a second after the first is not within its second
        ([1.0, 2.0, 3.0], 1),
        ([1.0, 1.1, 5.0, 5.1, 5.2, 5.9], 4),
    ],
)
def test_the_most_in_any_second_is_found_wherever_it_begins(times: list[float], most: int) -> None:
    assert most_within(times, 1.0) == most


def test_peers_sign_what_receivers_believe() -> None:
    body = marked(7, "loop")
    verified = Webhook(SECRET).verify(body, signed(7, body))
    assert orjson.loads(body) == verified
    assert verified["mark"] == "loop-7"
