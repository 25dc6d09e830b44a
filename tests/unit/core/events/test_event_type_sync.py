"""From how a type stands to how it is declared: by allowed steps, or not at all."""

import pytest

from core.events.event_type import MOST_VERSIONS, Life, Refusal, TypeStatus, Version, VersionStatus
from core.events.event_type_sync import Declared, Refused, Removal, Steps, plan, remove

DRAFT, CURRENT, OLD = VersionStatus.FINALISING, VersionStatus.CURRENT, VersionStatus.DEPRECATED
V10, V11, V20 = Version(1, 0), Version(1, 1), Version(2, 0)
SAME, OTHER = False, True


def life(**versions: VersionStatus) -> Life:
    """`v1_0=CURRENT` is version 1.0."""
    numbers = {name: name[1:].split("_") for name in versions}
    return Life(
        versions={Version(*map(int, numbers[name])): status for name, status in versions.items()}
    )


@pytest.mark.parametrize(
    ("stands", "declared", "steps"),
    [
        (life(), [], Steps()),
        (life(v1_0=CURRENT), [], Steps()),
        (life(v1_0=CURRENT), [Declared(V10, SAME)], Steps()),
        (life(v1_0=CURRENT), [Declared(V10, SAME, CURRENT)], Steps()),
        (life(v1_0=DRAFT), [Declared(V10, SAME, DRAFT)], Steps()),
        (life(), [Declared(V10, OTHER)], Steps((V10,), {})),
        (life(v1_0=DRAFT), [Declared(V10, OTHER)], Steps((V10,), {})),
        (life(), [Declared(V10, OTHER, CURRENT)], Steps((V10,), {V10: CURRENT})),
        (life(v1_0=DRAFT), [Declared(V10, SAME, CURRENT)], Steps((), {V10: CURRENT})),
        (life(v1_0=CURRENT), [Declared(V10, SAME, OLD)], Steps((), {V10: OLD})),
        # A new one takes the place of what was in force.
        (
            life(v1_0=CURRENT),
            [Declared(V11, OTHER, CURRENT), Declared(V10, SAME)],
            Steps((V11,), {V10: OLD, V11: CURRENT}),
        ),
        # The whole history at once, on an empty database.
        (
            life(),
            [
                Declared(V20, OTHER),
                Declared(V11, OTHER, CURRENT),
                Declared(V10, OTHER, OLD),
            ],
            Steps((V10, V11, V20), {V10: OLD, V11: CURRENT}),
        ),
        # What is told of the past takes no place.
        (life(v1_1=CURRENT), [Declared(V10, OTHER, OLD)], Steps((V10,), {V10: OLD})),
    ],
)
def test_a_type_gets_where_it_is_declared_to_be(
    stands: Life, declared: list[Declared], steps: Steps
) -> None:
    assert plan(stands, declared) == steps


@pytest.mark.parametrize(
    ("stands", "declared", "refused"),
    [
        (life(v1_0=CURRENT), Declared(V10, OTHER), Refused(Refusal.INVALID_STATUS, V10)),
        (life(v1_0=OLD), Declared(V10, OTHER), Refused(Refusal.INVALID_STATUS, V10)),
        (life(v1_0=OLD), Declared(V10, SAME, CURRENT), Refused(Refusal.INVALID_STATUS, V10)),
        (life(v1_0=CURRENT), Declared(V10, SAME, DRAFT), Refused(Refusal.INVALID_STATUS, V10)),
        (life(), Declared(V10, SAME), Refused(Refusal.VERSION_NOT_FOUND, V10)),
        (
            Life(versions={Version(9, n): DRAFT for n in range(MOST_VERSIONS)}),
            Declared(V10, OTHER),
            Refused(Refusal.TOO_MANY_VERSIONS, V10),
        ),
        (Life(TypeStatus.ARCHIVED), Declared(V10, OTHER), Refused(Refusal.ALREADY_ARCHIVED)),
    ],
)
def test_no_declaration_goes_round_the_rules(
    stands: Life, declared: Declared, refused: Refused
) -> None:
    assert plan(stands, [declared]) == refused


def test_after_its_steps_a_type_needs_no_more() -> None:
    declared = [Declared(V10, OTHER, OLD), Declared(V11, OTHER, CURRENT), Declared(V20, OTHER)]
    steps = plan(life(), declared)
    assert isinstance(steps, Steps)
    assert steps
    reached = dict.fromkeys(steps.puts, DRAFT) | dict(steps.moves)
    again = plan(Life(versions=reached), [one._replace(is_other=SAME) for one in declared])
    assert isinstance(again, Steps)
    assert not again


@pytest.mark.parametrize(
    ("stands", "removal"),
    [
        (life(), Removal(drops=True)),
        (life(v1_0=DRAFT), Removal(drops=True)),
        (Life(TypeStatus.ARCHIVED, {V10: OLD}), Removal(drops=True)),
        (life(v1_0=OLD), Removal()),
        (life(v1_0=OLD, v1_1=CURRENT), Removal(kept=Refusal.VERSIONS_NOT_DEPRECATED)),
        (life(v1_0=OLD, v1_1=DRAFT), Removal(kept=Refusal.VERSIONS_NOT_DEPRECATED)),
    ],
)
def test_a_type_that_is_declared_no_more_goes_as_far_as_it_may(
    stands: Life, removal: Removal
) -> None:
    assert remove(stands) == removal
