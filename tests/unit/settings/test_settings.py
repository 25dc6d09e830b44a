from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from core.shared.config import Config, Placement
from core.shared.errors import InvalidError
from core.shared.kafka_config import KafkaConfig
from core.shared.quotas import QuotaLimits
from settings.ingress import IngressOptions
from settings.settings import Settings
from settings.table import list_settings


@pytest.fixture(autouse=True)
def _empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable and no .env of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"MUSTER_{name.upper()}", raising=False)


def source_of(name: str, flags: dict[str, Any] | None = None) -> tuple[str, str]:
    (row,) = [row for row in list_settings(flags) if row.name == name]
    return row.value, row.source


def test_a_flag_goes_before_a_variable_and_a_variable_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert source_of("port") == ("8000", "default")
    (tmp_path / ".env").write_text("MUSTER_PORT=8001\nOTHER=ignored\n")
    assert source_of("port") == ("8001", ".env")
    monkeypatch.setenv("MUSTER_PORT", "8002")
    assert source_of("port") == ("8002", "env")
    assert source_of("port", {"port": 8003}) == ("8003", "flag")
    assert source_of("port", {"port": None}) == ("8002", "env")


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://u:s3cr3t@h/d")
    assert "s3cr3t" not in repr(list_settings()) + repr(Settings.load())
    assert isinstance(Settings.load().database_url, SecretStr)


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_every_part_of_the_configuration_is_a_setting_with_the_same_default() -> None:
    settings = Settings.load({"shards": 2})
    derived = {"dsn", "public_url", "kafka", "call_networks", "call_ports", "journal_urls"}
    derived |= {"quotas"}
    derived |= {"secret_keys", "secret_key_file"}
    for field in fields(Config):
        if field.name not in derived:
            assert getattr(settings, field.name) == field.default, field.name
    assert settings.to_config("postgresql://x").quotas == QuotaLimits()
    for field in fields(IngressOptions):
        if field.name != "sample_receiver":
            assert getattr(settings, field.name) == field.default, field.name


def test_the_configuration_carries_every_value() -> None:
    config = Settings.load({"shards": 7, "placement": "dedicated", "max_body": 2048}).to_config("d")
    assert (config.dsn, config.shards, config.max_body) == ("d", 7, 2048)
    assert config.placement is Placement.DEDICATED
    assert Settings.load({"stream_limit": 3}).to_options().stream_limit == 3


@pytest.mark.parametrize(
    ("flags", "takes"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "0.0.0.0", "sample_receiver": True}, True),
        ({"sample_receiver": False}, False),
    ],
)
def test_deliveries_are_tried_here_where_nobody_else_reaches_it(
    flags: dict[str, object], takes: bool
) -> None:
    assert Settings.load(flags).to_options().sample_receiver is takes


@pytest.mark.parametrize(
    ("flags", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"host": "0.0.0.0", "port": 80}, "http://127.0.0.1:80"),
        ({"host": "::"}, "http://[::1]:8000"),
        ({"host": "muster.example"}, "http://muster.example:8000"),
        ({"public_url": "https://hooks.example/muster/"}, "https://hooks.example/muster"),
    ],
)
def test_callback_urls_begin_with_an_address_others_can_reach(
    flags: dict[str, Any], url: str
) -> None:
    assert Settings.load(flags).to_config("d").public_url == url


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "http"),
        ("PORT", "70000"),
        ("SHARDS", "0"),
        ("PLACEMENT", "anywhere"),
        ("HEARTBEAT", "0"),
        ("REQUEST_TIMEOUT", "inf"),
        ("PUBLIC_URL", "hooks.example"),
        ("LOG_LEVEL", "LOUD"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"MUSTER_{name}", text)
    with pytest.raises(InvalidError) as refusal:
        Settings.load()
    assert refusal.value.field == f"MUSTER_{name}"


def test_a_flag_that_is_no_setting_is_refused() -> None:
    with pytest.raises(InvalidError, match="colour"):
        Settings.load({"colour": "red"})


def test_the_largest_body_must_fit_a_tenants_half_of_the_budget() -> None:
    with pytest.raises(InvalidError, match="MUSTER_BODY_BUDGET"):
        Settings.load({"max_body": 4096, "body_budget": 8191})
    Settings.load({"max_body": 4096, "body_budget": 8192})


def test_there_is_a_half_of_every_bound_for_a_tenant() -> None:
    for name in ("request_limit", "stream_limit"):
        with pytest.raises(InvalidError, match=name.upper()):
            Settings.load({name: 1})


def test_a_cluster_is_never_on_loopback() -> None:
    """Whatever MUSTER_HOST says: nothing listens there."""
    local = {"host": "127.0.0.1", "public_url": "http://localhost:8000"}
    settings = Settings.load(local)
    assert settings.to_config("d").call_networks != ()
    assert settings.to_options().sample_receiver is True
    cluster = settings.on_cluster()
    assert cluster.to_config("d").call_networks == ()
    assert cluster.to_options().sample_receiver is False


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ({}, False),
        ({"public_url": "https://muster.example"}, False),
        ({"host": "0.0.0.0", "public_url": "https://muster.example"}, False),
        ({"public_url": "http://muster.example"}, True),
        ({"host": "0.0.0.0"}, True),
        ({"host": "10.0.0.7"}, True),
    ],
)
def test_letting_others_in_without_tls_is_told(flags: dict[str, object], warned: bool) -> None:
    told = Settings.load(flags).plain_text_warning
    assert (told is not None) is warned
    if told is not None:
        assert "MUSTER_PUBLIC_URL=https://" in told


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", "")
    assert Settings.load().database_url is None
    assert source_of("database_url") == ("", "default")


def test_without_a_broker_there_is_no_kafka() -> None:
    assert Settings.load().to_config("d").kafka is None
    settings = Settings.load({"kafka_bootstrap": "one:9092"})
    assert settings.to_config("d").kafka == KafkaConfig(bootstrap="one:9092")


def test_the_way_to_the_brokers_is_carried_whole_and_its_password_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MUSTER_KAFKA_SASL_PASSWORD", "s3cr3t")
    flags = {
        "kafka_bootstrap": "one:9092,[::1]:9093",
        "kafka_client_id": "orders",
        "kafka_security_protocol": "SASL_SSL",
        "kafka_sasl_mechanism": "SCRAM-SHA-512",
        "kafka_sasl_username": "muster",
        "kafka_tls_ca": "ca.pem",
        "kafka_tls_certificate": "own.pem",
        "kafka_tls_key": "own.key",
    }
    config = Settings.load(flags).to_config("d")
    assert config.kafka is not None
    for setting, value in flags.items():
        assert getattr(config.kafka, setting.removeprefix("kafka_")) == value
    assert config.kafka.sasl_password == "s3cr3t"
    assert "s3cr3t" not in repr(config) + repr(Settings.load(flags)) + repr(list_settings(flags))


@pytest.mark.parametrize("text", ["broker", "one:9092,", "one:9092, two:9092", "kafka://one:9092"])
def test_brokers_are_named_by_host_and_port(text: str) -> None:
    with pytest.raises(InvalidError, match="MUSTER_KAFKA_BOOTSTRAP"):
        Settings.load({"kafka_bootstrap": text})


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"kafka_security_protocol": "SASL_SSL"}, "MUSTER_KAFKA_SASL_PASSWORD"),
        (
            {"kafka_sasl_username": "muster", "kafka_sasl_password": "x"},
            "MUSTER_KAFKA_SECURITY_PROTOCOL",
        ),
        ({"kafka_tls_certificate": "own.pem"}, "MUSTER_KAFKA_TLS_KEY"),
    ],
)
def test_half_of_an_access_is_refused(flags: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidError, match=named):
        Settings.load(flags)


# Calls.


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_an_instance_on_loopback_may_call_loopback(host: str) -> None:
    """Whoever reaches it can call loopback without its help."""
    networks = Settings.load({"host": host}).to_config("d").call_networks
    assert networks == ("127.0.0.0/8", "::1/128")


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.5", "muster.example", "127.0.0.1.nip.io"]
)
def test_an_instance_that_others_reach_may_call_public_addresses_only(host: str) -> None:
    assert Settings.load({"host": host}).to_config("d").call_networks == ()


@pytest.mark.parametrize(
    ("public_url", "alone"),
    [
        ("https://muster.example", False),
        ("https://localhost.example:8443/muster", False),
        ("https://localhost@muster.example", False),
        ("https://[::1", False),
        ("http://localhost:9000/muster", True),
        ("http://[::1]:8000", True),
    ],
)
def test_an_instance_behind_a_proxy_is_reached_by_others(public_url: str, alone: bool) -> None:
    """It listens on loopback as one does that nobody else reaches; loopback is not theirs."""
    settings = Settings.load({"host": "127.0.0.1", "public_url": public_url})
    assert bool(settings.to_config("d").call_networks) is alone
    assert settings.to_options().sample_receiver is alone


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("10.0.0.0/8, fd00::/8", ("10.0.0.0/8", "fd00::/8")),
        ("loopback", ("127.0.0.0/8", "::1/128")),
        ("192.168.1.7", ("192.168.1.7/32",)),
        (",", ()),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_networks_that_are_named_are_those_that_are_allowed(
    host: str, text: str, networks: tuple[str, ...]
) -> None:
    settings = Settings.load({"host": host, "call_networks": text})
    assert settings.to_config("d").call_networks == networks


@pytest.mark.parametrize("text", ["10.0.0.1/8", "example.org", "10.0.0.0/8 10.0.0.0/8", "private"])
def test_a_network_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_CALL_NETWORKS", text)
    with pytest.raises(InvalidError, match="MUSTER_CALL_NETWORKS"):
        Settings.load()


def test_journals_may_be_asked_for_at_addresses_that_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Settings.load().to_config("d").journal_urls == ()
    monkeypatch.setenv("MUSTER_JOURNAL_URLS", "http://one.example/ask, https://two.example:8443 ")
    urls = Settings.load().to_config("d").journal_urls
    assert urls == ("http://one.example/ask", "https://two.example:8443")


@pytest.mark.parametrize(
    "text", ["one.example", "ftp://one.example", "http://", "http://one.example,two", "http://a#b"]
)
def test_an_address_of_journals_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="MUSTER_JOURNAL_URLS"):
        Settings.load({"journal_urls": text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CALL_POOLS", "0"),
        ("CALL_LIMIT", "0"),
        ("CALL_LIMIT", "many"),
        ("CALL_QUEUE", "0"),
        ("CALL_BUDGET", "1023"),
    ],
)
def test_there_is_at_least_one_call(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"MUSTER_{name}", text)
    with pytest.raises(InvalidError) as refusal:
        Settings.load()
    assert refusal.value.field == f"MUSTER_{name}"


def test_ports_that_are_named_are_the_only_ones_that_are_called() -> None:
    assert Settings.load({}).to_config("d").call_ports == ()
    named = Settings.load({"call_ports": "443, 8000-8100"}).to_config("d").call_ports
    assert named == ((443, 443), (8000, 8100))
    with pytest.raises(InvalidError) as caught:
        Settings.load({"call_ports": "https"})
    assert "MUSTER_CALL_PORTS" in str(caught.value)
