"""Options of a delivery that subscriptions and posted jobs share."""

from dataclasses import dataclass

from cli.shell.options import option
from cli.shell.parsing import CredentialOptions, parse_seconds
from core.dispatch.job import Mode
from core.dispatch.subscription import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions(CredentialOptions):
    """How something is delivered; options that are not given have Muster's default."""

    mode: Mode | None = option(
        "IMMEDIATE keeps no order; the others keep it within a message group, and say "
        "what the group does when a delivery fails.",
        case_sensitive=False,
    )
    sequence: int | None = option("Position within the message group.", min=0)
    pool: str | None = option("Code or id of the pool that delivers.", api="dispatchPoolId")
    delay: str | None = option(
        "Wait this long before the first attempt, as in 10s.",
        api="delaySeconds",
        convert=parse_seconds,
    )
    max_age: str | None = option(
        "Expire after this time, as in 1d.", api="maxAgeSeconds", convert=parse_seconds
    )
    timeout: str | None = option(
        "How long one attempt may take, as in 30s.", api="timeoutSeconds", convert=parse_seconds
    )
    retries: int | None = option(
        "Attempts in all, the first one included.", api="maxRetries", min=1
    )
    signature: Signature | None = option(
        "How deliveries are signed: as Standard Webhooks, or with one hash."
    )
