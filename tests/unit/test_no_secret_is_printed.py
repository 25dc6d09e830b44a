"""No repr shows a secret: whatever is logged, raised or printed with it."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from core.gathers.gather import CallBatch, GatherCall, GatherSpec, Question, Resource
from core.shared.config import Config
from core.shared.kafka_config import KafkaConfig
from serve_app.gathers.models import ResourceRequest
from serve_app.http.fields import BasicAuth, BearerAuth
from serve_app.http.models import SECRET_FIELDS, WireModel
from settings.settings import Settings
from storage.postgres.pool import PoolOptions
from tests.support.shards import address

MARKER = "hunter22"
PACKAGES = ("core", "storage", "actors", "handlers", "serve_app", "cli", "telemetry")

_SECRET = re.compile(
    r"(^|_)(dsn|password|secrets?|token|auth|authorization|headers|secret_keys?|database_url"
    r"|callback_url|new_key)$"
)
# Not secret, though they are called so.
_OPEN = {
    ("host.postgres.embedded", "EmbeddedServer", "dsn"),  # a private socket, without a password
    ("core.waits.messages", "Offer", "by_token"),  # whether it came by one
    ("core.waits.state", "ParkedEvent", "by_token"),
    ("core.kafka.message", "KafkaMessage", "headers"),  # of Kafka: data, as the payload is
    ("core.records.change_event", "ChangeMessage", "headers"),
    ("core.waits.completion_event", "CompletionMessage", "headers"),
    ("cli.kafka.produce", "ProducerMessage", "headers"),
    ("serve_app.http.problems", "Problem", "headers"),  # Retry-After
    ("handlers.http.connection", "RawResponse", "headers"),  # what others answered
    ("handlers.http.client", "HttpResponse", "headers"),
}


def classes() -> Iterator[type]:
    for package in PACKAGES:
        folder = importlib.import_module(package).__path__
        for found in pkgutil.walk_packages(folder, f"{package}."):
            module = importlib.import_module(found.name)
            for _, kind in inspect.getmembers(module, inspect.isclass):
                if kind.__module__ == found.name:
                    yield kind


def printed(kind: type) -> list[str]:
    """The fields that its repr shows."""
    if dataclasses.is_dataclass(kind):
        shown = [one for one in dataclasses.fields(kind) if one.repr]
        return [one.name for one in shown if one.type not in (bool, "bool")]
    if issubclass(kind, WireModel):
        return [name for name in kind.model_fields if name not in SECRET_FIELDS]
    if issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return [name for name, one in fields if one.repr and "SecretStr" not in str(one.annotation)]
    if issubclass(kind, msgspec.Struct):
        is_own = kind.__repr__ is not msgspec.Struct.__repr__
        return [] if is_own else list(kind.__struct_fields__)
    if issubclass(kind, tuple):
        return list(getattr(kind, "_fields", ()))
    return []


def test_no_class_prints_a_field_that_is_called_like_a_secret() -> None:
    wrong = [
        where
        for kind in classes()
        for name in printed(kind)
        if _SECRET.search(name) and not name.startswith("has_")
        if (where := (kind.__module__, kind.__name__, name)) not in _OPEN
    ]
    assert wrong == []


RESOURCE = Resource(
    url=f"http://u:{MARKER}@h/", headers={"X-Key": MARKER}, authorization=f"Bearer {MARKER}"
)
CALL = GatherCall(
    address=address(),
    expires_at=0.0,
    name="shop",
    resource=RESOURCE,
    callback_url=f"http://h/?token={MARKER}",
    body=MARKER.encode(),
)


@pytest.mark.parametrize(
    "value",
    [
        Config(
            dsn=f"postgresql://u:{MARKER}@h/d",
            secret_keys=(MARKER.encode() * 4,),
            kafka=KafkaConfig(bootstrap="h:1", sasl_username="u", sasl_password=MARKER),
        ),
        PoolOptions(dsn=f"postgresql://u:{MARKER}@h/d", name="test"),
        RESOURCE,
        CALL,
        CallBatch((CALL,)),
        GatherSpec(asks=(Question(name="shop", inline=RESOURCE),)),
        BearerAuth(type="bearer", token=MARKER),
        BasicAuth(type="basic", username="u", password=MARKER),
        ResourceRequest(
            url="http://h/",
            headers={"X-Key": MARKER},
            auth=BearerAuth(type="bearer", token=MARKER),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_secrets_prints_none(value: Any) -> None:
    assert MARKER not in repr(value)
    assert MARKER not in str(value)
    assert MARKER not in f"{value}"


def test_settings_print_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", f"postgresql://u:{MARKER}@h/d")
    monkeypatch.setenv("MUSTER_SECRET_KEY", "aHVudGVyMjJodW50ZXIyMmh1bnRlcjIyaHVudGVyMjI=")
    monkeypatch.setenv("MUSTER_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("MUSTER_KAFKA_SASL_USERNAME", "u")
    monkeypatch.setenv("MUSTER_KAFKA_SASL_PASSWORD", MARKER)
    monkeypatch.setenv("MUSTER_KAFKA_BOOTSTRAP", "h:1")
    settings = Settings.load()
    config = settings.to_config(f"postgresql://u:{MARKER}@h/d")
    assert config.secret_keys == (MARKER.encode() * 4,)
    for text in (repr(settings), str(settings), repr(config), repr(settings.to_options())):
        assert MARKER not in text
        assert "aHVudGVyMjJ" not in text
