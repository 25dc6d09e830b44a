"""A demo needs an instance that is ready."""

from cli.shell.client import Client
from cli.shell.errors import CommandError
from cli.shell.problems import ProblemResponseError


async def require_ready(muster: Client) -> None:
    """Say so in a sentence if it is not."""
    try:
        await muster.get("/actuator/health/readiness")
    except ProblemResponseError as problem:
        if problem.status != 503:
            raise
        raise CommandError(
            f"Muster at {muster.instance.url} is not ready: see `muster status`, or try again."
        ) from problem
