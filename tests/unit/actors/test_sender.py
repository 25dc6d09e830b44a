"""What a message weighs on its way to a shard."""

import pytest

from actors.sender import weight_of
from core.address import Address
from core.messages import Cancel, Message, Offer, Register
from core.spec import Source

ADDRESS = Address(1, "g-1", "g-1")
LONG = b"x" * 100_000


@pytest.mark.parametrize(
    ("message", "least"),
    [
        (Cancel(address=ADDRESS, turn_id="t"), 0),
        (
            Offer(
                address=ADDRESS,
                turn_id="t",
                event_id="e",
                source=Source.API,
                label="one",
                payload=LONG,
            ),
            100_000,
        ),
        (Register(address=ADDRESS, turn_id="t", node_id="n", spec=b"", asked=LONG), 100_000),
    ],
)
def test_a_message_weighs_what_it_carries(message: Message, least: int) -> None:
    assert least < weight_of(message) < least + 1_000
