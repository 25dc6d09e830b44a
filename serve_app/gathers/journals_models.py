"""Requests and responses of the journals interface."""

import re
from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator

from core.gathers.gather import DEFAULT_GRACE_MS, Completeness, GatherMode, OnDisconnect
from core.shared.call_outcome import CallState
from serve_app.gathers.models import Grace, ResourceNameText, Timeout
from serve_app.http.models import View, WireModel

_DELAY = re.compile(r"-?[0-9]{1,9}")


class JournalsRequest(WireModel):
    """The journals of one patient, from all three resources."""

    patient_id: Annotated[str, Field(min_length=1, max_length=255, examples=["19121212-1212"])]
    delays: str | list[int] = Field(
        "", description="Milliseconds for each resource, separated by commas; -1 is refused."
    )
    timeout_ms: Timeout | None = None
    strategy: str = Field("SSE", description="SSE or WAIT_FOR_EVERYONE.", examples=["SSE"])
    on_disconnect: OnDisconnect = OnDisconnect.CANCEL
    grace_ms: Grace = DEFAULT_GRACE_MS

    @field_validator("delays", mode="before")
    @classmethod
    def _are_numbers(cls, given: Any) -> list[int]:
        texts = [""]
        if isinstance(given, str):
            texts = [part.strip() or "0" for part in given.split(",")]
        elif isinstance(given, list) and all(type(part) is int for part in given):
            texts = [str(part) for part in given]
        if not all(_DELAY.fullmatch(text) for text in texts):
            raise ValueError("whole numbers of milliseconds, separated by commas or in a list")
        return [int(text) for text in texts]

    @field_validator("strategy")
    @classmethod
    def _is_known(cls, given: str) -> str:
        if given.upper() not in {"SSE", "WAIT_FOR_EVERYONE"}:
            raise ValueError("SSE or WAIT_FOR_EVERYONE")
        return given

    @property
    def mode(self) -> GatherMode:
        return GatherMode.STREAM if self.strategy.upper() == "SSE" else GatherMode.WAIT

    def delay(self, index: int) -> int:
        return int(self.delays[index]) if index < len(self.delays) else 0


class JournalsStarted(View):
    """Where to follow the journals (strategy SSE)."""

    respondents: int = Field(description="Resources that had accepted by then.")
    correlation_id: str
    timeout_ms: int
    stream_url: str


class JournalResource(WireModel):
    """How one resource answered."""

    status: CallState
    delay_ms: int | None = None
    notes: int
    detail: str | None = None


class JournalsResult(WireModel):
    """All journals at once (strategy WAIT_FOR_EVERYONE)."""

    patient_id: str
    correlation_id: str
    status: str
    completeness: Completeness
    respondents: int
    errors: int
    received: int
    notes: list[Any]
    resources: dict[str, JournalResource]


class JournalCallback(WireModel):
    """What a resource calls back with; other fields are stored too."""

    model_config = ConfigDict(extra="allow")

    source: ResourceNameText
    correlation_id: Annotated[str, Field(min_length=1, max_length=255)]
    patient_id: str | None = None
    delay_ms: int | None = None
    status: str | None = None
    notes: list[Any] | None = None
