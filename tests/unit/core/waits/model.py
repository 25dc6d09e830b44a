"""The rules once more, as plainly as they can be said. The real code must agree with it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from core.shared.json_path import document_of, equal_json, find
from core.waits.messages import Offer, Verdict
from core.waits.spec import ExpectedEvent, Strategy, TimeoutPolicy, WaitSpec
from core.waits.strategy import Outcome, Status


def choices(spec: WaitSpec, offer: Offer) -> list[str]:
    """The names an event may stand for, the most particular first."""
    document = document_of(offer.payload)

    def fits(event: ExpectedEvent) -> bool:
        return (
            event.source is offer.source
            and event.label in (None, offer.label)
            and all(equal_json(value, find(document, path)) for path, value in event.filter.items())
        )

    found = [event for event in spec.events if fits(event)]
    found.sort(key=lambda event: (event.label is None, -len(event.filter)))
    return [event.name for event in found]


def satisfied(spec: WaitSpec, received: Iterable[str]) -> bool:
    """Whether these events would be enough."""
    have = set(received)
    names = {event.name for event in spec.events}
    match spec.strategy:
        case Strategy.ALL | Strategy.SETTLED:
            return have >= names
        case Strategy.ANY:
            return bool(have) or not names
        case Strategy.REQUIRED_ONLY:
            return have >= {event.name for event in spec.events if event.required}
        case Strategy.CUSTOM:
            return have >= set(spec.listed)
        case Strategy.QUORUM:
            return len(have) >= spec.quorum


def needed(spec: WaitSpec) -> set[str]:
    """The names whose failing counts against the wait."""
    match spec.strategy:
        case Strategy.REQUIRED_ONLY:
            return {event.name for event in spec.events if event.required}
        case Strategy.CUSTOM:
            return set(spec.listed)
        case _:
            return {event.name for event in spec.events}


def status_of(spec: WaitSpec, outcomes: dict[str, Outcome]) -> Status:
    """How a wait with these outcomes stands."""
    received = {name for name, o in outcomes.items() if o is Outcome.RECEIVED}
    pending = {name for name, o in outcomes.items() if o is Outcome.PENDING}
    if spec.strategy is Strategy.SETTLED:
        return Status.WAITING if pending else Status.COMPLETED
    if satisfied(spec, received):
        return Status.COMPLETED
    if satisfied(spec, received | pending):
        return Status.WAITING
    if goes_on(spec, received):
        return Status.COMPLETED
    if goes_on(spec, received | pending):
        return Status.WAITING
    broken = {name for name, o in outcomes.items() if o in {Outcome.FAILED, Outcome.REJECTED}}
    return Status.FAILED if broken & needed(spec) else Status.TIMEOUT


def goes_on(spec: WaitSpec, received: set[str]) -> bool:
    """What the policy says once the strategy is out of reach."""
    if spec.on_timeout is not TimeoutPolicy.CONTINUE:
        return spec.on_timeout is TimeoutPolicy.CONTINUE_WITH_PARTIAL
    required = {event.name for event in spec.events if event.required}
    return spec.strategy in {Strategy.ANY, Strategy.REQUIRED_ONLY} or (
        spec.strategy is Strategy.ALL and received >= required
    )


@dataclass(slots=True)
class Model:
    """A wait as a table of outcomes; `taken` is which event, of which request, filled a place."""

    spec: WaitSpec
    opened_at: float
    outcomes: dict[str, Outcome] = field(init=False)
    status: Status = field(init=False)
    taken: dict[str, tuple[str, str]] = field(default_factory=dict)
    promised: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.outcomes = {event.name: Outcome.PENDING for event in self.spec.events}
        self.status = status_of(self.spec, self.outcomes)

    def offer(self, offer: Offer, now: float) -> Verdict:
        """Take an event and say what became of it."""
        if offer.event_id in self.taken:
            _, turn_id = self.taken[offer.event_id]
            return Verdict.MATCHED if turn_id == offer.turn_id else Verdict.DUPLICATE
        names = choices(self.spec, offer)
        if not names:
            return Verdict.REJECTED
        if self.status is Status.WAITING:
            self.pass_time(now)
        if self.status is not Status.WAITING:
            return Verdict.LATE
        for name in names:
            if self.outcomes[name] is Outcome.PENDING:
                self.outcomes[name] = offer.outcome
                self.taken[offer.event_id] = (name, offer.turn_id)
                self.status = status_of(self.spec, self.outcomes)
                return Verdict.MATCHED
        late = self.outcomes[names[0]] is Outcome.TIMED_OUT
        return Verdict.LATE if late else Verdict.DUPLICATE

    def pass_time(self, now: float) -> None:
        """Give up what is overdue."""
        if self.status is not Status.WAITING:
            return
        for event in self.spec.events:
            allowed = min(self.spec.timeout, event.timeout or self.spec.timeout)
            overdue = now >= round(self.opened_at + allowed, 6)
            if overdue and self.outcomes[event.name] is Outcome.PENDING:
                self.outcomes[event.name] = Outcome.TIMED_OUT
        self.status = status_of(self.spec, self.outcomes)

    def accept(self, name: str) -> bool:
        """Somebody agrees to send an event; whether that was still news."""
        is_news = (
            self.status is Status.WAITING
            and self.outcomes.get(name) is Outcome.PENDING
            and name not in self.promised
        )
        if is_news:
            self.promised.add(name)
        return is_news

    def cancel(self) -> None:
        """End it if it has not ended."""
        if self.status is Status.WAITING:
            self.status = Status.CANCELLED
