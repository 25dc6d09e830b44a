"""Options of a delivery that subscriptions and posted jobs share."""

from dataclasses import dataclass
from typing import Annotated

import typer

from cli.shell.options import ApiField
from cli.shell.parsing import CredentialOptions, parse_seconds
from core.dispatch.job import Mode
from core.dispatch.subscription import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions(CredentialOptions):
    """How something is delivered; options that are not given have Muster's default."""

    mode: Annotated[
        Mode | None,
        typer.Option(
            help="IMMEDIATE keeps no order; the others keep it within a message group, and say "
            "what the group does when a delivery fails.",
            case_sensitive=False,
        ),
    ] = None
    sequence: Annotated[
        int | None, typer.Option(min=0, help="Position within the message group.")
    ] = None
    pool: Annotated[
        str | None,
        typer.Option(help="Code or id of the pool that delivers."),
        ApiField("dispatchPoolId"),
    ] = None
    delay: Annotated[
        str | None,
        typer.Option(help="Wait this long before the first attempt, as in 10s."),
        ApiField("delaySeconds", parse_seconds),
    ] = None
    max_age: Annotated[
        str | None,
        typer.Option(help="Expire after this time, as in 1d."),
        ApiField("maxAgeSeconds", parse_seconds),
    ] = None
    timeout: Annotated[
        str | None,
        typer.Option(help="How long one attempt may take, as in 30s."),
        ApiField("timeoutSeconds", parse_seconds),
    ] = None
    retries: Annotated[
        int | None,
        typer.Option(min=1, help="Attempts in all, the first one included."),
        ApiField("maxRetries"),
    ] = None
    signature: Annotated[
        Signature | None,
        typer.Option(help="How deliveries are signed: as Standard Webhooks, or with one hash."),
    ] = None
