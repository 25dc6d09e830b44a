"""Every setting, read once from flags, `MUSTER_*` variables and `.env`; nothing else reads them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    SettingsConfigDict,
)

from core.config import Config, Placement
from core.errors import InvalidError
from serve_app.options import IngressOptions

PREFIX = "MUSTER_"

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=1024)]


def _cores() -> int:
    """The cores this process may use, which in a container are fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Settings(BaseSettings):
    """All settings. A flag goes before a variable, a variable before `.env`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        validate_default=True,
    )

    # Where it runs
    host: str = Field("127.0.0.1", description="Address the HTTP API listens on.", min_length=1)
    port: int = Field(8000, description="Port the HTTP API listens on.", ge=1, le=65_535)
    public_url: str | None = Field(
        None,
        description="Address others reach the HTTP API at; callback URLs begin with it. "
        "Default: http://host:port.",
        pattern=r"^https?://[^\s/?#]+[^\s?#]*$",
    )
    data_dir: Path = Field(
        Path(".muster"), description="Folder of the embedded PostgreSQL and of the instance."
    )
    database_url: SecretStr | None = Field(
        None, description="PostgreSQL to use (postgresql://…). Default: the embedded server."
    )
    dashboard: bool = Field(False, description="Start Ray's dashboard, on loopback only.")
    namespace: str = Field("muster", description="Ray namespace of the actors.", min_length=1)

    # How much of it
    shards: Count = Field(
        default_factory=_cores, description="Shards that host correlations. Default: one per core."
    )
    placement: Placement = Field(
        Placement.SHARDED,
        description="Where a correlation lives: sharded, or dedicated (a Ray actor each).",
    )
    dedicated_limit: Count = Field(
        50, description="Most Ray actors that placement dedicated makes; each is a process."
    )
    ingress_replicas: Count = Field(1, description="Replicas of the HTTP ingress.")

    # Memory and load
    hot_limit: Count = Field(200_000, description="Most correlations in one shard's memory.")
    idle_after: Seconds = Field(
        60.0, description="Seconds without a message after which a correlation leaves memory."
    )
    pending_limit: Count = Field(
        20_000, description="Most messages that may wait for one shard; more get 429."
    )
    flush_limit: Count = Field(2_000, description="Most correlations written by one flush.")
    log_limit: Count = Field(
        256, description="Most entries in the log of one correlation; later ones are refused."
    )
    max_ongoing_requests: Count = Field(
        10_000, description="Most requests and streams Serve lets into one replica."
    )
    max_queued_requests: Count = Field(
        1_000, description="Most requests that may queue before one replica; more get 429."
    )
    request_limit: Count = Field(
        2_000, description="Most requests under way in one replica; more get 429."
    )
    stream_limit: Count = Field(
        5_000, description="Most streams and long polls held open by one replica; more get 429."
    )
    max_body: Bytes = Field(1_048_576, description="Largest request body in bytes; more gets 413.")
    body_budget: Bytes = Field(
        64 * 1024 * 1024,
        description="Most bytes of request bodies one replica holds at once; more get 429.",
    )

    # Times
    request_timeout: Seconds = Field(
        10.0, description="Seconds a request waits for shards and Postgres before it gets 503."
    )
    heartbeat: Seconds = Field(15.0, description="Seconds between comments on a quiet stream.")
    early_ttl: Seconds = Field(
        86_400.0, description="Seconds an event is kept that came before its wait or was refused."
    )
    retention: Seconds = Field(
        7 * 86_400.0, description="Seconds an ended wait is kept; its callback URL lives as long."
    )
    timer_horizon: Seconds = Field(
        5.0, description="Seconds ahead for which the timer holds deadlines in memory."
    )
    timer_tick: Seconds = Field(0.05, description="Seconds between two looks of the timer.")
    sweep_every: Seconds = Field(
        10.0, description="Seconds between sweeps for stranded and expired rows."
    )

    # Logs
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Least level that is logged."
    )
    log_json: bool = Field(True, description="Log as JSON lines; false: as text for people.")

    @model_validator(mode="after")
    def _one_body_fits(self) -> Self:
        if self.body_budget < self.max_body:
            raise ValueError(f"{PREFIX}BODY_BUDGET must not be less than {PREFIX}MAX_BODY")
        return self

    @classmethod
    def load(cls, flags: Mapping[str, object] | None = None) -> Self:
        """Read everything; a flag of None was not given.

        Raises:
            InvalidError: A value cannot be used; it names the variable.
        """
        given = _given(flags)
        unknown = sorted(set(given) - set(cls.model_fields))
        if unknown:
            raise InvalidError(unknown[0], "there is no such setting")
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = "_".join(str(part) for part in first["loc"]) or "settings"
            raise InvalidError(f"{PREFIX}{name.upper()}", first["msg"]) from None

    @property
    def url(self) -> str:
        """Where others reach the HTTP API."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def to_config(self, dsn: str) -> Config:
        """The part that every process gets, as plain data."""
        shared = {field.name for field in fields(Config)} - {"dsn", "public_url"}
        values = {name: getattr(self, name) for name in shared}
        return Config(dsn=dsn, public_url=self.url, **values)

    def to_options(self) -> IngressOptions:
        """The part that only ingress replicas get."""
        return IngressOptions(
            **{field.name: getattr(self, field.name) for field in fields(IngressOptions)}
        )


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as `muster config` shows it."""

    name: str
    variable: str
    value: str
    source: Literal["flag", "env", ".env", "default"]
    description: str


def list_settings(flags: Mapping[str, object] | None = None) -> list[SettingRow]:
    """Every setting with its value and where that came from; secrets are masked."""
    settings = Settings.load(flags)
    flagged = _given(flags)
    variables = EnvSettingsSource(Settings)()
    written = DotEnvSettingsSource(Settings)()

    def source(name: str) -> Literal["flag", "env", ".env", "default"]:
        if name in flagged:
            return "flag"
        if name in variables:
            return "env"
        return ".env" if name in written else "default"

    return [
        SettingRow(
            name,
            f"{PREFIX}{name.upper()}",
            _shown(getattr(settings, name)),
            source(name),
            field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def _given(flags: Mapping[str, object] | None) -> dict[str, Any]:
    return {name: value for name, value in (flags or {}).items() if value is not None}


def _shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case _:  # SecretStr masks itself
            return str(value)
