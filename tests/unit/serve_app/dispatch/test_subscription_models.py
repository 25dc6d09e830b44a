"""Subscriptions and pools as callers see them; why a step is refused."""

import pytest

from core.dispatch.pool import PoolRefusal
from core.dispatch.subscription import SubscriptionRefusal
from serve_app.dispatch.secret_models import RotateRequest, SecretView
from serve_app.dispatch.subscription_models import SubscriptionPatch, SubscriptionView
from serve_app.http.declarations import SyncView
from serve_app.http.json_io import parse_as
from serve_app.http.problems import ProblemError, problem_of_refusal
from storage.dispatch.webhook_secrets import WebhookSecret
from storage.postgres.reconciler import DeclarationOptions, SyncRefusal, SyncResult
from tests.support.subscriptions import subscription


@pytest.mark.parametrize("refusal", [*SubscriptionRefusal, *PoolRefusal])
def test_every_refusal_is_explained(refusal: SubscriptionRefusal | PoolRefusal) -> None:
    problem = problem_of_refusal(refusal)
    assert problem.code == refusal.code
    assert problem.status in {403, 404, 409}
    assert len(problem.detail) > 20


def test_of_two_with_one_name_each_is_explained_as_what_it_is() -> None:
    assert "subscription" in SubscriptionRefusal.CODE_EXISTS.sentence
    assert "pool" in PoolRefusal.CODE_EXISTS.sentence


def test_what_may_be_secret_is_masked() -> None:
    auth = {"type": "basic", "username": "hush-1", "password": "hush-2"}
    view = SubscriptionView.of(subscription(1, auth=auth, headers={"X-Key": "hush-3"}))
    assert "hush" not in view.model_dump_json()
    assert (view.auth, view.headers) == ({"type": "basic", "secret": "•••"}, {"X-Key": "•••"})
    assert (view.anchor_level, view.failing_since) == (False, None)


def test_the_anchors_are_told_apart_and_failures_dated() -> None:
    view = SubscriptionView.of(subscription(0, failing_since=0.0))
    assert (view.anchor_level, view.failing_since) == (True, "1970-01-01T00:00:00.000000Z")


def test_the_newest_secret_comes_first() -> None:
    live = [WebhookSecret(b"b" * 24, 2.0, None), WebhookSecret(b"a" * 24, 1.0, 3.0)]
    view = SecretView.of({"secret": live[0].secret, "secrets": live})
    assert view.secret == view.secrets[0].secret == "whsec_" + "YmJi" * 8
    assert view.secrets[1].expires_at == "1970-01-01T00:00:03.000000Z"


def test_a_declaration_tells_what_stays_and_why() -> None:
    kept = SyncRefusal("slow", PoolRefusal.POOL_IN_USE)
    options = DeclarationOptions(application="shop", is_dry_run=True)
    view = SyncView.of_result(options, SyncResult(created=["a"], kept=[kept]))
    assert (view.dry_run, view.created, view.kept[0].reason) == (True, ["a"], "pool_in_use")
    assert view.kept[0].detail == PoolRefusal.POOL_IN_USE.sentence


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "body"),
        (b'{"target": null}', "body"),
        (b'{"sequence": -1}', "sequence"),
        (b'{"headers": {"Host": "x"}}', "headers"),
    ],
)
def test_a_change_says_something_that_can_be(body: bytes, field: str) -> None:
    with pytest.raises(ProblemError) as refusal:
        parse_as(SubscriptionPatch, body)
    assert refusal.value.problem.field_errors[0].field == field


def test_what_can_go_is_taken_away_by_null() -> None:
    wish = parse_as(SubscriptionPatch, b'{"filter": null, "auth": null, "mode": "NEXT_ON_ERROR"}')
    assert wish.values() == {"filter": None, "auth": None, "mode": "NEXT_ON_ERROR"}


@pytest.mark.parametrize("secret", ["hush", "whsec_aHVzaA==", "whsec_hush!", "whsec_" + "A" * 88])
def test_a_secret_that_cannot_be_is_not_repeated(secret: str) -> None:
    with pytest.raises(ProblemError) as refusal:
        parse_as(RotateRequest, b'{"secret": "%s"}' % secret.encode())
    problem = refusal.value.problem
    assert problem.field_errors[0].field == "secret"
    assert secret not in str(problem.document())
