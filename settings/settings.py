"""Reads every setting once from flags, `MUSTER_*` variables and `.env`; nothing else reads them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError, ValidationInfo, field_validator, model_validator

from core.access.secret_keys import parse_keys
from core.kafka.topic_routing import TopicRule
from core.shared.call_policy import LOOPBACK, parse_networks, parse_ports
from core.shared.config import Config
from core.shared.errors import InvalidError
from core.shared.kafka_config import KafkaConfig
from core.shared.quotas import QuotaLimits
from settings.fields import PREFIX, SettingFields
from settings.ingress import IngressOptions
from settings.parsing import host_of, split_list, to_plain, topic_entries, url_of

_URL = re.compile(r"https?://[^\s/?#]+[^\s#]*")
_EVERYWHERE = "0.0.0.0"  # noqa: S104  never bound here: it only says that other machines may connect
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


def _parse_urls(text: str) -> tuple[str, ...]:
    urls = split_list(text)
    wrong = [url for url in urls if not _URL.fullmatch(url)]
    if wrong:
        raise ValueError(f"{wrong[0]} is not an http or https URL")
    return urls


_PARSERS: dict[str, Callable[[str], object]] = {
    "secret_key": lambda text: parse_keys(text.split(",")),
    "call_networks": parse_networks,
    "call_ports": parse_ports,
    "journal_urls": _parse_urls,
}


class Settings(SettingFields):
    """All settings, validated, and the forms in which processes are given them."""

    @model_validator(mode="after")
    def _one_body_fits(self) -> Self:
        if self.body_budget < 2 * self.max_body:
            raise ValueError(
                f"{PREFIX}BODY_BUDGET must be at least twice {PREFIX}MAX_BODY, "
                "because a tenant may use half of it"
            )
        if self.result_limit < self.max_body:
            raise ValueError(f"{PREFIX}RESULT_LIMIT must be at least {PREFIX}MAX_BODY")
        return self

    @model_validator(mode="after")
    def _kafka_access_is_whole(self) -> Self:
        wanted = self.kafka_security_protocol.startswith("SASL_")
        given = (self.kafka_sasl_username is not None, self.kafka_sasl_password is not None)
        if given != (wanted, wanted):
            raise ValueError(
                f"{PREFIX}KAFKA_SASL_USERNAME and {PREFIX}KAFKA_SASL_PASSWORD must be set if, and "
                f"only if, {PREFIX}KAFKA_SECURITY_PROTOCOL is SASL_PLAINTEXT or SASL_SSL"
            )
        for entry in topic_entries(self.kafka_topics):
            TopicRule.parse(entry)
        if (self.kafka_tls_certificate is None) != (self.kafka_tls_key is None):
            raise ValueError(
                f"{PREFIX}KAFKA_TLS_CERTIFICATE and {PREFIX}KAFKA_TLS_KEY must be set together"
            )
        return self

    @field_validator(*_PARSERS)
    @classmethod
    def _can_be_parsed(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None:
            _PARSERS[str(info.field_name)](to_plain(value))
        return value

    @classmethod
    def load(cls, flags: Mapping[str, object] | None = None) -> Self:
        """Read all settings; a flag of None was not given.

        Raises:
            InvalidError: A value is invalid; the error names its variable.
        """
        flagged = given_flags(flags)
        unknown = sorted(set(flagged) - set(cls.model_fields))
        if unknown:
            raise InvalidError(unknown[0], "there is no such setting")
        try:
            return cls(**flagged)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = "_".join(str(part) for part in first["loc"]) or "settings"
            raise InvalidError(f"{PREFIX}{name.upper()}", first["msg"]) from None

    @property
    def url(self) -> str:
        """The base URL at which clients reach the HTTP API."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        return url_of(self.host, self.port)

    def with_plain_kafka(self, bootstrap: str | None) -> Self:
        """Copy the settings for an embedded broker without authentication, or for none."""
        plain = {"kafka_security_protocol", "kafka_sasl_username", "kafka_sasl_password"}
        plain |= {"kafka_tls_ca", "kafka_tls_certificate", "kafka_tls_key"}
        defaults = {name: type(self).model_fields[name].default for name in plain}
        return self.model_copy(update={**defaults, "kafka_bootstrap": bootstrap})

    def to_config(self, dsn: str, secret_key_file: Path | None = None) -> Config:
        """Return the configuration that every process is given.

        Without keys in the settings, those of `secret_key_file` encrypt secrets.
        """
        keys = self.secret_keys()
        own = {"dsn", "public_url", "kafka", "call_networks", "call_ports", "journal_urls"}
        own |= {"quotas", "secret_keys", "secret_key_file"}
        shared = {field.name for field in fields(Config)} - own
        return Config(
            dsn=dsn,
            secret_keys=keys,
            secret_key_file=None if keys or secret_key_file is None else str(secret_key_file),
            public_url=self.url,
            kafka=self._kafka(),
            call_networks=self._networks(),
            call_ports=parse_ports(self.call_ports),
            journal_urls=split_list(self.journal_urls),
            quotas=self._quotas(),
            **{name: getattr(self, name) for name in shared},
        )

    def _quotas(self) -> QuotaLimits:
        names = [field.name for field in fields(QuotaLimits)]
        return QuotaLimits(**{name: getattr(self, f"tenant_{name}") for name in names})

    def _networks(self) -> tuple[str, ...]:
        """Permit loopback where the API is on loopback: its callers can call it anyway."""
        if self.call_networks is not None:
            return parse_networks(self.call_networks)
        return LOOPBACK if self._is_on_loopback else ()

    def on_cluster(self) -> Self:
        """Copy the settings for a cluster, where each machine listens on its network."""
        return self.model_copy(update={"host": _EVERYWHERE})

    @property
    def plain_text_warning(self) -> str | None:
        """A warning for an operator who lets others connect without TLS."""
        if self._is_on_loopback or not self.url.startswith("http://"):
            return None
        return (
            f"Other machines reach {self.url} without TLS: keys, tokens and payloads can be read "
            f"on the way. Put a TLS proxy in front and set {PREFIX}PUBLIC_URL=https://…"
        )

    @property
    def _is_on_loopback(self) -> bool:
        """True if no other machine can reach the HTTP API, not even through a proxy here."""
        return self.host in _LOOPBACK_HOSTS and host_of(self.url) in _LOOPBACK_HOSTS

    def _kafka(self) -> KafkaConfig | None:
        """Return the Kafka configuration, each field from its setting; None without a broker."""
        if self.kafka_bootstrap is None:
            return None
        names = {field.name: f"kafka_{field.name}" for field in fields(KafkaConfig)}
        values = {name: to_plain(getattr(self, setting)) for name, setting in names.items()}
        return KafkaConfig(**values | {"topics": topic_entries(self.kafka_topics)})

    def secret_keys(self) -> tuple[bytes, ...]:
        """Return the encryption keys of the settings, the one that encrypts first."""
        if self.secret_key is None:
            return ()
        return parse_keys(self.secret_key.get_secret_value().split(","))

    def to_options(self) -> IngressOptions:
        values = {field.name: getattr(self, field.name) for field in fields(IngressOptions)}
        if self.sample_receiver is None:
            values["sample_receiver"] = self._is_on_loopback
        return IngressOptions(**values)


def given_flags(flags: Mapping[str, object] | None) -> dict[str, Any]:
    return {name: value for name, value in (flags or {}).items() if value is not None}
