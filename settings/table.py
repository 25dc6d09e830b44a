"""The table of settings that `muster config` prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource

from settings.fields import PREFIX
from settings.settings import Settings, given_flags


@dataclass(frozen=True, slots=True)
class SettingRow:
    name: str
    variable: str
    value: str
    source: Literal["flag", "env", ".env", "default"]
    description: str


def list_settings(flags: Mapping[str, object] | None = None) -> list[SettingRow]:
    """List every setting with its value and the source of the value; secrets are masked."""
    settings = Settings.load(flags)
    flagged = given_flags(flags)
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
            " ".join((field.description or "").split()),
        )
        for name, field in Settings.model_fields.items()
    ]


def _shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case _:  # SecretStr masks itself
            return str(value)
