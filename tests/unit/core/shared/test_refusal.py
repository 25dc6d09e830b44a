import pytest

from core.dispatch.pool import PoolRefusal
from core.dispatch.subscription import SubscriptionRefusal
from core.events.event_type import EventTypeRefusal
from core.shared.refusal import Refusal, RefusalReason


@pytest.mark.parametrize(
    "refusal", [*PoolRefusal, *SubscriptionRefusal, *EventTypeRefusal], ids=str
)
def test_a_refusal_has_a_word_for_programs_and_a_sentence_for_people(refusal: Refusal) -> None:
    assert refusal.code == refusal.name.lower()
    assert isinstance(refusal.reason, RefusalReason)
    assert refusal.sentence
    assert not refusal.sentence.endswith(".")


def test_refusals_with_equal_words_stay_apart() -> None:
    for kind in (PoolRefusal, SubscriptionRefusal, EventTypeRefusal):
        assert len(list(kind)) == len(kind.__members__), "two members share reason and sentence"
