"""The metrics of maintenance."""

from telemetry.actor_metrics import ActorMetrics, Stat

MAINTENANCE_METRICS = ActorMetrics(
    kind="maintenance",
    labels=("actor",),
    counters=(
        Stat("partitions_created", "Partitions that were made ahead.", "tables.created"),
        Stat("partitions_dropped", "Partitions dropped after their time.", "tables.dropped"),
        Stat(
            "partition_failures",
            "Partitions that could not be made or dropped; the next round tries again.",
            "tables.failed",
        ),
        Stat("change_events", "Record changes that became events.", "change_events.stored"),
        Stat(
            "change_events_postponed",
            "Times that events of record changes could not be stored; they are tried again.",
            "change_events.postponed",
        ),
        Stat(
            "change_events_refused",
            "Record changes that can be no events.",
            "change_events.refused",
        ),
        Stat(
            "change_events_vanished",
            "Record changes that were gone before they became events.",
            "change_events.vanished",
        ),
    ),
    gauges=(
        Stat("partitions", "Partitions of append-only tables.", "tables.existing"),
        Stat("change_events_backlog", "Record changes that are no events yet.", "backlog.rows"),
        Stat("change_events_oldest_seconds", "Age of the oldest of these.", "backlog.oldest"),
    ),
)
