"""Checks that refuse a message before its correlation handles it."""

import math

from actors.messaging.change_feed import ChangeFeeds
from core.waits.messages import (
    Abandon,
    Offer,
    RefusalKind,
    RefusedReply,
    Reply,
    StatusReply,
    Verdict,
    WaitMessage,
)
from core.waits.state import Wait
from core.waits.transitions import verdict_if_only_logged

# After a restart of a shard, replicas renew their watches within this many seconds.
REWATCH_WITHIN = 3.0

_TOO_NEW = RefusedReply(
    kind=RefusalKind.OVERLOADED, detail="this shard does not know yet who reads here"
)


_TOKEN_EXPIRED = RefusedReply(
    kind=RefusalKind.TOKEN_EXPIRED, detail="this callback token has expired: its wait has ended"
)


class MessageGuard:
    """The checks of one shard, which started at `began` by the database's clock."""

    def __init__(
        self, log_limit: int, feeds: ChangeFeeds, began: float, token_grace: float = math.inf
    ) -> None:
        self._log_limit = log_limit
        self._token_grace = token_grace
        self._feeds = feeds
        self._began = began

    def check(self, wait: Wait, message: WaitMessage, now: float) -> Reply | None:
        """Return the refusal of a message, or None if the correlation may handle it."""
        if isinstance(message, Offer):
            if message.by_token and self._is_over(wait, now):
                return _TOKEN_EXPIRED
            if wait.log_length < self._log_limit:
                return None
            # An event that counts is logged even in a full log: each expected event has its entry.
            verdict = verdict_if_only_logged(wait, message, now)
            return None if verdict is None else _log_is_full(verdict)
        return self._check_abandon(wait, message, now) if isinstance(message, Abandon) else None

    def _is_over(self, wait: Wait, now: float) -> bool:
        return wait.ending is not None and now >= wait.ending.at + self._token_grace

    def _check_abandon(self, wait: Wait, message: Abandon, now: float) -> Reply | None:
        """Check whether other readers remain after the last one of a replica left."""
        if wait.opened_at < self._began and now < self._began + REWATCH_WITHIN:
            return _TOO_NEW
        if self._feeds.leave(message.feed, message.address.key):
            return StatusReply(status=wait.status, changed=False)
        return None


def _log_is_full(verdict: Verdict) -> RefusedReply:
    """Make a final refusal: a log never gets shorter."""
    detail = f"the event is {verdict}, and this wait's log has no room for more of these"
    return RefusedReply(kind=RefusalKind.FULL, detail=detail, verdict=verdict)
