"""What travels between replicas and shards: messages to waits and records, and their replies."""

from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from core.records.messages import RecordMessage, RecordReply, SaveAllRecords, SaveRecord
from core.waits.messages import Reply, WaitMessage

ShardMessage: TypeAlias = WaitMessage | RecordMessage
ShardReply: TypeAlias = Reply | RecordReply

RECORD_MESSAGES = (SaveRecord, SaveAllRecords)

# One batch as one value: Ray then pickles bytes, not objects.
encode_batch = msgspec.msgpack.Encoder().encode
decode_messages = msgspec.msgpack.Decoder(list[ShardMessage]).decode
decode_replies = msgspec.msgpack.Decoder(list[ShardReply]).decode


def mark_resent(batch: bytes) -> bytes:
    """Return a batch that may have been handled before, so that it changes nothing twice.

    Waits know all their events, so only messages to records are marked.
    """
    messages = decode_messages(batch)
    if not any(isinstance(message, RECORD_MESSAGES) for message in messages):
        return batch
    return encode_batch(
        [
            replace(message, resent=True) if isinstance(message, RECORD_MESSAGES) else message
            for message in messages
        ]
    )
