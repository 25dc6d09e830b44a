"""Any sequence of messages, clock ticks and restarts, beside the plain model of the rules."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from core.waits.messages import (
    Abandon,
    Cancel,
    Offer,
    OfferReply,
    RefusalKind,
    RefusedReply,
    RegisterReply,
    StatusReply,
    Verdict,
)
from core.waits.spec import WaitSpec
from core.waits.strategy import Ending, Outcome, Status
from tests.unit.core.waits.builders import (
    START,
    SingleCorrelation,
    abandon,
    accept,
    as_column,
    cancel,
    expire,
    register,
)
from tests.unit.core.waits.generate import offers, specs
from tests.unit.core.waits.model import Model


class Correlation(RuleBasedStateMachine):
    """`world` runs the real turns; `model` is None until the wait is registered."""

    sent: Bundle[Offer] = Bundle("sent")

    @initialize(spec=specs)
    def begin(self, spec: WaitSpec) -> None:
        self.spec = spec
        self.now = START
        self.world = SingleCorrelation()
        self.model: Model | None = None
        self.early: list[Offer] = []
        self.count = 0
        self.version = 0
        self.ending: Ending | None = None

    @rule(target=sent, data=st.data())
    def send(self, data: st.DataObject) -> Offer:
        self.count += 1
        event = data.draw(offers(self.spec, f"event-{self.count:03}"))
        self.deliver(event)
        return event

    @rule(event=sent)
    def retry(self, event: Offer) -> None:
        self.deliver(event)

    @rule(event=sent)
    def send_twice(self, event: Offer) -> None:
        self.count += 1
        self.deliver(replace(event, turn_id=f"turn-again-{self.count}"))

    @rule()
    def register_wait(self) -> None:
        reply = self.world.say(register(self.spec), self.now)
        assert isinstance(reply, RegisterReply)
        assert reply.created
        if self.model is None:
            self.model = Model(self.spec, as_column(self.now))
            for event in self.early:
                self.model.offer(event, self.now)

    @precondition(lambda self: self.model is not None)
    @rule(other_node=st.booleans())
    def register_again(self, other_node: bool) -> None:
        node = "node-2" if other_node else "node-1"
        reply = self.world.say(register(self.spec, "reg-2", node), self.now)
        if other_node:
            assert isinstance(reply, RefusedReply)
            assert reply.kind is RefusalKind.CONFLICT
        else:
            assert isinstance(reply, RegisterReply)
            assert not reply.created

    @rule(seconds=st.sampled_from((0.0, 0.5, 1.5, 3.0)))
    def wait_a_while(self, seconds: float) -> None:
        self.now += seconds

    @rule(ahead=st.sampled_from((0.0, 1.0)))
    def fire_timer(self, ahead: float) -> None:
        """The timer's clock is the database's; an owner's may lag behind it."""
        self.count += 1
        at = self.now + ahead
        reply = self.world.say(expire(at, f"timer-{self.count}"), self.now)
        if self.model is None:
            assert isinstance(reply, RefusedReply)
            assert reply.kind is RefusalKind.UNKNOWN
            return
        assert isinstance(reply, StatusReply)
        self.model.pass_time(at)
        assert at < self.world.waiting_or_ended.expires_at or reply.status is not Status.WAITING

    @rule(place=st.integers(0, 4), turn_id=st.sampled_from(("accept-1", "accept-2")))
    def promise(self, place: int, turn_id: str) -> None:
        """One more than there are events: a name that is not expected."""
        name = [*self.spec.names, "nobody"][place % (len(self.spec.names) + 1)]
        reply = self.world.say(accept(name, turn_id), self.now)
        if self.model is None:
            assert isinstance(reply, RefusedReply)
            return
        assert reply == StatusReply(status=self.model.status, changed=self.model.accept(name))

    @precondition(lambda self: self.count > 3)
    @rule(end=st.sampled_from((cancel("cancel-1"), cancel("cancel-2"), abandon())))
    def cancel_wait(self, end: Cancel | Abandon) -> None:
        reply = self.world.say(end, self.now)
        if self.model is None:
            assert isinstance(reply, RefusedReply)
            return
        assert isinstance(reply, StatusReply)
        by_this = self.model.status is Status.WAITING or (
            self.ending is not None and self.ending.turn_id == end.turn_id
        )
        assert reply.changed is by_this
        self.model.cancel()

    @rule()
    def restart(self) -> None:
        before = self.world.wait
        self.world.restart()
        assert self.world.wait == before

    @invariant()
    def agrees_with_the_model(self) -> None:
        if self.model is None:
            assert self.world.wait is None
            return
        wait = self.world.waiting_or_ended
        assert wait.outcomes == self.model.outcomes
        assert wait.status is self.model.status
        promised = {
            name
            for name, mark in zip(wait.spec.names, wait.marks, strict=True)
            if mark.outcome is Outcome.PENDING and mark.at
        }
        outcomes = self.model.outcomes
        assert promised == {n for n in self.model.promised if outcomes[n] is Outcome.PENDING}
        taken = {event_id: name for event_id, (name, _) in self.model.taken.items()}
        marks = zip(wait.spec.events, wait.marks, strict=True)
        assert {m.event_id: e.name for e, m in marks if m.event_id} == taken

    @invariant()
    def goes_forward_only(self) -> None:
        wait = self.world.wait
        if wait is None:
            return
        assert wait.version >= self.version
        assert self.ending in {None, wait.ending}
        assert all(entry.seq <= wait.log_length for entry in self.world.log.values())
        self.version, self.ending = wait.version, wait.ending

    def deliver(self, event: Offer) -> None:
        reply = self.world.say(event, self.now)
        assert isinstance(reply, OfferReply)
        if self.model is not None:
            assert reply.verdict is self.model.offer(event, self.now)
            assert reply.status is self.model.status
            return
        assert reply.verdict is Verdict.BUFFERED
        if all(known.event_id != event.event_id for known in self.early):
            self.early.append(event)


TestCorrelation = pytest.mark.timeout(60)(Correlation.TestCase)
TestCorrelation.settings = settings(stateful_step_count=30)
