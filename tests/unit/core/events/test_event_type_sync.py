"""From how a type stands to how it is declared: by allowed steps, or not at all."""

import pytest

from core.events.event_type import (
    MAX_VERSIONS,
    EventTypeLifecycle,
    EventTypeRefusal,
    TypeStatus,
    Version,
    VersionStatus,
)
from core.events.event_type_sync import (
    DesiredVersion,
    RemovalPlan,
    SyncPlan,
    SyncPlanRefused,
    plan_removal,
    plan_sync,
)

DRAFT, CURRENT, OLD = VersionStatus.FINALISING, VersionStatus.CURRENT, VersionStatus.DEPRECATED
V10, V11, V20 = Version(1, 0), Version(1, 1), Version(2, 0)
SAME, OTHER = False, True


def life(**versions: VersionStatus) -> EventTypeLifecycle:
    """`v1_0=CURRENT` is version 1.0."""
    numbers = {name: name[1:].split("_") for name in versions}
    return EventTypeLifecycle(
        versions={Version(*map(int, numbers[name])): status for name, status in versions.items()}
    )


@pytest.mark.parametrize(
    ("stands", "declared", "steps"),
    [
        (life(), [], SyncPlan()),
        (life(v1_0=CURRENT), [], SyncPlan()),
        (life(v1_0=CURRENT), [DesiredVersion(V10, SAME)], SyncPlan()),
        (life(v1_0=CURRENT), [DesiredVersion(V10, SAME, CURRENT)], SyncPlan()),
        (life(v1_0=DRAFT), [DesiredVersion(V10, SAME, DRAFT)], SyncPlan()),
        (life(), [DesiredVersion(V10, OTHER)], SyncPlan((V10,), {})),
        (life(v1_0=DRAFT), [DesiredVersion(V10, OTHER)], SyncPlan((V10,), {})),
        (life(), [DesiredVersion(V10, OTHER, CURRENT)], SyncPlan((V10,), {V10: CURRENT})),
        (life(v1_0=DRAFT), [DesiredVersion(V10, SAME, CURRENT)], SyncPlan((), {V10: CURRENT})),
        (life(v1_0=CURRENT), [DesiredVersion(V10, SAME, OLD)], SyncPlan((), {V10: OLD})),
        # A new one takes the place of what was in force.
        (
            life(v1_0=CURRENT),
            [DesiredVersion(V11, OTHER, CURRENT), DesiredVersion(V10, SAME)],
            SyncPlan((V11,), {V10: OLD, V11: CURRENT}),
        ),
        # The whole history at once, on an empty database.
        (
            life(),
            [
                DesiredVersion(V20, OTHER),
                DesiredVersion(V11, OTHER, CURRENT),
                DesiredVersion(V10, OTHER, OLD),
            ],
            SyncPlan((V10, V11, V20), {V10: OLD, V11: CURRENT}),
        ),
        # What is told of the past takes no place.
        (life(v1_1=CURRENT), [DesiredVersion(V10, OTHER, OLD)], SyncPlan((V10,), {V10: OLD})),
    ],
)
def test_a_type_gets_where_it_is_declared_to_be(
    stands: EventTypeLifecycle, declared: list[DesiredVersion], steps: SyncPlan
) -> None:
    assert plan_sync(stands, declared) == steps


@pytest.mark.parametrize(
    ("stands", "declared", "refused"),
    [
        (
            life(v1_0=CURRENT),
            DesiredVersion(V10, OTHER),
            SyncPlanRefused(EventTypeRefusal.INVALID_STATUS, V10),
        ),
        (
            life(v1_0=OLD),
            DesiredVersion(V10, OTHER),
            SyncPlanRefused(EventTypeRefusal.INVALID_STATUS, V10),
        ),
        (
            life(v1_0=OLD),
            DesiredVersion(V10, SAME, CURRENT),
            SyncPlanRefused(EventTypeRefusal.INVALID_STATUS, V10),
        ),
        (
            life(v1_0=CURRENT),
            DesiredVersion(V10, SAME, DRAFT),
            SyncPlanRefused(EventTypeRefusal.INVALID_STATUS, V10),
        ),
        (
            life(),
            DesiredVersion(V10, SAME),
            SyncPlanRefused(EventTypeRefusal.VERSION_NOT_FOUND, V10),
        ),
        (
            EventTypeLifecycle(versions={Version(9, n): DRAFT for n in range(MAX_VERSIONS)}),
            DesiredVersion(V10, OTHER),
            SyncPlanRefused(EventTypeRefusal.TOO_MANY_VERSIONS, V10),
        ),
        (
            EventTypeLifecycle(TypeStatus.ARCHIVED),
            DesiredVersion(V10, OTHER),
            SyncPlanRefused(EventTypeRefusal.ALREADY_ARCHIVED),
        ),
    ],
)
def test_no_declaration_goes_round_the_rules(
    stands: EventTypeLifecycle, declared: DesiredVersion, refused: SyncPlanRefused
) -> None:
    assert plan_sync(stands, [declared]) == refused


def test_after_its_steps_a_type_needs_no_more() -> None:
    declared = [
        DesiredVersion(V10, OTHER, OLD),
        DesiredVersion(V11, OTHER, CURRENT),
        DesiredVersion(V20, OTHER),
    ]
    steps = plan_sync(life(), declared)
    assert isinstance(steps, SyncPlan)
    assert steps
    reached = dict.fromkeys(steps.new_schemas, DRAFT) | dict(steps.status_changes)
    again = plan_sync(
        EventTypeLifecycle(versions=reached),
        [one._replace(schema_differs=SAME) for one in declared],
    )
    assert isinstance(again, SyncPlan)
    assert not again


@pytest.mark.parametrize(
    ("stands", "removal"),
    [
        (life(), RemovalPlan(deletes=True)),
        (life(v1_0=DRAFT), RemovalPlan(deletes=True)),
        (EventTypeLifecycle(TypeStatus.ARCHIVED, {V10: OLD}), RemovalPlan(deletes=True)),
        (life(v1_0=OLD), RemovalPlan()),
        (life(v1_0=OLD, v1_1=CURRENT), RemovalPlan(kept=EventTypeRefusal.VERSIONS_NOT_DEPRECATED)),
        (life(v1_0=OLD, v1_1=DRAFT), RemovalPlan(kept=EventTypeRefusal.VERSIONS_NOT_DEPRECATED)),
    ],
)
def test_a_type_that_is_declared_no_more_goes_as_far_as_it_may(
    stands: EventTypeLifecycle, removal: RemovalPlan
) -> None:
    assert plan_removal(stands) == removal
