"""Structured logs: one event name with fields per line, never a payload, never a secret."""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import msgspec
import structlog
from structlog.typing import ExcInfo, Processor

from core.shared.address import Address

# Fields that would contain payloads or credentials. They are masked, not dropped, so that the
# author of a log call sees why the value is missing.
HIDDEN = frozenset(
    {
        "authorization",
        "body",
        "data",
        "dsn",
        "headers",
        "key",
        "password",
        "payload",
        "secret",
        "token",
    }
)
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def configure_logging(level: str, *, as_json: bool) -> None:
    """Set up logging for this process; may be called again."""
    if level.upper() not in _LEVELS:
        raise ValueError(f"log level must be one of {', '.join(_LEVELS)}, not {level!r}")
    shown: list[Processor] = (
        [
            structlog.processors.ExceptionRenderer(_traceback),
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
        if as_json
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _named,
            _without_secrets,
            *shown,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=lambda *names: _StderrLogger(*names[:1]),
        cache_logger_on_first_use=False,
    )


def about(address: Address) -> dict[str, Any]:
    """Return the log fields that identify a correlation."""
    return {
        "tenant": address.tenant,
        "execution": address.execution_id,
        "correlation": address.correlation_id,
    }


# No local variables: they hold payloads and keys.
_full_traceback = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
_MESSAGE_LENGTH = 300


def _traceback(exc_info: ExcInfo) -> list[dict[str, Any]]:
    """Return the frames with shortened messages, because some drivers quote the rejected value."""
    stacks = _full_traceback(exc_info)
    for stack in stacks:
        stack["exc_value"] = stack["exc_value"][:_MESSAGE_LENGTH]
    return stacks


class _StderrLogger(structlog.WriteLogger):
    """Looks stderr up for each line, so that redirecting it works; keeps the logger's name.

    It does not use `print`, which Serve replaces in its replicas.
    """

    def __init__(self, name: str = "muster") -> None:
        super().__init__(file=sys.stderr)
        self.name = name


def _named(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event["logger"] = logger.name
    return event


def _without_secrets(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for field in HIDDEN.intersection(event):
        event[field] = "[hidden]"
    return event


def _to_json(event: Mapping[str, Any], **options: Any) -> str:
    # Values that JSON cannot express are logged as text: logging must not raise.
    return msgspec.json.encode(event, enc_hook=repr).decode("utf-8", "replace")
