"""What a shard holds in memory is bounded by number and by bytes."""

from actors.waits.activation import MARK_BYTES, WAIT_BYTES, Activation, ActivationCache
from core.shared.address import Address
from core.waits.limits import DEFAULT_LIMITS
from core.waits.messages import Register
from core.waits.spec import ExpectedEvent, Source, WaitSpec, encode_spec
from core.waits.transitions import apply
from storage.waits.waits import LoadedWait

ALONE = WAIT_BYTES + MARK_BYTES


def spec_of(topic: str) -> WaitSpec:
    return WaitSpec(events=(ExpectedEvent(name="a", source=Source.KAFKA, label=topic),))


def register(number: int, spec: WaitSpec) -> Register:
    where = Address(1, "run", f"c{number}")
    return Register(address=where, turn_id="r", node_id=f"n{number}", spec=encode_spec(spec))


def resident(number: int, spec: WaitSpec) -> Activation:
    message = register(number, spec)
    wait = apply(None, message, 10.0).wait
    return Activation.of(message.address.key, LoadedWait(wait), 10.0)


def test_a_spec_counts_once_however_many_waits_have_it() -> None:
    activations = ActivationCache(10, 60.0, 10**9)
    shared = spec_of("t")
    ones = [resident(number, shared) for number in range(3)]
    for one in ones:
        activations.add(one)
        activations.add(one)
    assert activations.weight == 3 * ALONE + shared.weight
    for one in ones[:2]:
        activations.drop(one.key)
    assert activations.weight == ALONE + shared.weight
    activations.drop(ones[2].key)
    activations.drop(ones[2].key)
    assert activations.weight == 0


def test_a_wait_counts_from_its_registration_on() -> None:
    activations = ActivationCache(10, 60.0, 10**9)
    spec = spec_of("t")
    message = register(1, spec)
    one = Activation.of(message.address.key, LoadedWait(), 10.0)
    activations.add(one)
    assert activations.weight == 0
    one.apply(message, 10.0, DEFAULT_LIMITS)
    for _ in range(2):
        activations.update_weight(one)
        assert activations.weight == ALONE + spec.weight


def test_another_state_of_a_correlation_takes_its_place() -> None:
    activations = ActivationCache(10, 60.0, 10**9)
    for _ in range(2):
        activations.add(resident(1, spec_of("t")))
    assert len(activations) == 1
    assert activations.weight == ALONE + spec_of("t").weight


def test_the_longest_unused_leave_when_they_hold_too_much() -> None:
    weight = ALONE + spec_of("t0").weight
    activations = ActivationCache(10, 60.0, 3 * weight)
    ones = [resident(number, spec_of(f"t{number}")) for number in range(5)]
    for one in ones:
        activations.add(one)
    assert activations.passivate(frozenset({ones[0].key}), 10.0) == 2
    assert activations.weight == 3 * weight
    left = [one.key for one in ones if activations.get(one.key, 10.0)]
    assert left == [ones[0].key, ones[3].key, ones[4].key]
    assert activations.passivate(frozenset(), 10.0) == 0
