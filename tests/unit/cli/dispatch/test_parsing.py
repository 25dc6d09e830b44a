"""Commands of deliveries as they are typed: each has help, and what cannot be right is not sent."""

import pytest

from tests.support.command_line import FakeMuster


@pytest.mark.parametrize(
    "words",
    [
        *(["events", name] for name in ("send", "list", "show")),
        *(
            ["event-types", name]
            for name in (
                "list",
                "show",
                "create",
                "add-version",
                "finalise",
                "deprecate",
                "archive",
            )
        ),
        *(
            ["subscriptions", name]
            for name in (
                "list",
                "show",
                "create",
                "change",
                "pause",
                "resume",
                "rm",
                "secret",
                "rotate",
            )
        ),
        *(
            ["pools", name]
            for name in ("list", "show", "put", "suspend", "activate", "archive", "stats")
        ),
        *(
            ["jobs", name]
            for name in (
                "list",
                "show",
                "post",
                "secret",
                "requeue",
                "resend",
                "cancel",
                "complete",
                "ignore",
                "recover",
            )
        ),
        *(["groups", name] for name in ("list", "show", "park", "resume", "skip")),
        *(["warnings", name] for name in ("list", "ack")),
        *(["breakers", name] for name in ("list", "reset")),
    ],
    ids=" ".join,
)
def test_every_command_has_help_with_an_example(words: list[str], muster: FakeMuster) -> None:
    shown = muster.run(*words, "--help")
    assert shown.exit_code == 0, shown.output
    assert f"muster {' '.join(words)}" in shown.stdout.rpartition("Example")[2]
    assert "--json" in shown.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["subscriptions", "create", "billing", "http://x/"], "Name the events to receive"),
        (["subscriptions", "create", "Billing", "http://x/", "-t", "*"], "is not a code"),
        (["subscriptions", "create", "billing", "http://x/", "-t", "@1.0"], "is not an event type"),
        (["subscriptions", "create", "billing", "http://x/", "-t", "a@"], "is not an event type"),
        (["subscriptions", "change", "billing"], "Say what to change"),
        (
            ["subscriptions", "show", "No Body"],
            "'No Body' is not a valid subscription code or id: see `muster subscriptions list`",
        ),
        (["subscriptions", "rotate", "billing", "--overlap", "soon"], "is not a duration"),
        (["pools", "put", "slow", "--rate", "fast"], "--rate is a number"),
        (["pools", "put", "slow", "--rate", "0"], "--rate is a number"),
        (
            ["pools", "show", "Slow!"],
            "'Slow!' is not a valid pool code or id: see `muster pools list`",
        ),
        (["warnings", "ack"], "Name warnings by their ids, or give --all."),
        (["warnings", "ack", "1", "--all"], "Name warnings by their ids, or give --all."),
        (["breakers", "reset"], "Name a target, or give --all."),
        (["breakers", "reset", "http://x/", "--all"], "Name a target, or give --all."),
    ],
)
def test_what_cannot_be_right_is_said_before_anything_is_sent(
    words: list[str], told: str, muster: FakeMuster
) -> None:
    run = muster.run(*words)
    assert run.exit_code == 2
    assert told in run.stderr
    assert not muster.requests
