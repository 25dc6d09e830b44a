"""Messages on their way to a shard: of both kinds in one batch, and what is sent again."""

from actors.messaging.batcher import MESSAGE_BYTES, weigh
from actors.messaging.shard_messages import (
    ShardMessage,
    decode_messages,
    decode_replies,
    encode_batch,
    mark_resent,
)
from core.records.messages import RecordSaved, RecordWrite, SaveAllRecords, SaveRecord
from core.records.record import RecordAddress
from core.shared.address import Address
from core.waits.messages import Cancel, StatusReply
from core.waits.strategy import Status

PLACE = RecordAddress(1, 2, "r1")
SAVE = SaveRecord(
    address=PLACE, turn_id="t1", write=RecordWrite.MERGE, definition_version=1, weight=700,
    fields={"name": "Zoë"},
)  # fmt: skip
ALL = SaveAllRecords(address=PLACE, turn_id="t2", saves=(SAVE,), weight=800)
CANCEL = Cancel(address=Address(1, "e", "c"), turn_id="t3")
MESSAGES: list[ShardMessage] = [SAVE, CANCEL, ALL]


def test_messages_to_waits_and_records_travel_together() -> None:
    assert decode_messages(encode_batch(MESSAGES)) == MESSAGES
    replies = [StatusReply(status=Status.CANCELLED, changed=True), RecordSaved(version=3)]
    assert decode_replies(encode_batch(replies)) == replies


def test_a_record_weighs_what_its_sender_says() -> None:
    assert weigh(MESSAGES) == 3 * MESSAGE_BYTES + 700 + 800


def test_what_is_sent_again_is_marked_where_it_matters() -> None:
    save, cancel, both = decode_messages(mark_resent(encode_batch(MESSAGES)))
    assert isinstance(save, SaveRecord)
    assert isinstance(both, SaveAllRecords)
    assert (save.resent, both.resent, cancel) == (True, True, CANCEL)
    waits = encode_batch([CANCEL])
    assert mark_resent(waits) is waits
