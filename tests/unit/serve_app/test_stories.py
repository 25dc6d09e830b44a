import sys

import msgspec

from core.gather import Ask, Asked, decode_asked, encode_asked
from serve_app.stories import gather_story


def test_a_story_does_not_keep_all_that_was_asked() -> None:
    body = msgspec.Raw(b'{"a":"body of some size"}')
    asks = tuple(Ask(name=f"r{number}", body=body) for number in range(100))
    stored = encode_asked(Asked(asks=asks, context=msgspec.Raw(b'{"patientId":"1"}')))
    before = sys.getrefcount(stored)
    asked = decode_asked(stored)
    assert sys.getrefcount(stored) > before  # bodies and context are parts of it
    story = gather_story(asked)
    del asked
    assert sys.getrefcount(stored) == before
    assert story[0] == "gather"
