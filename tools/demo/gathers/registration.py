"""The demo's resources in the places that journals come from, and what was there before."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from cli.gathers.resources import resource_path
from cli.shell.client import Client
from cli.shell.errors import CommandError
from cli.shell.problems import ProblemResponseError
from tools.demo.gathers.resource import DemoResources
from tools.demo.gathers.scene import NAMES

_SETTINGS = (
    "url",
    "method",
    "connectTimeoutMs",
    "readTimeoutMs",
    "ratePerMinute",
    "concurrency",
    "reply",
)


@asynccontextmanager
async def registered_resources(muster: Client, resources: DemoResources) -> AsyncIterator[None]:
    """Register the demo's resources for a while; afterwards all is as it was."""
    before = {name: await _none_if_missing(muster.get(resource_path(name))) for name in NAMES}
    for name, resource in before.items():
        # Their values are never told, so nobody but their owner could put them back.
        if resource and (resource.get("headers") or resource.get("auth")):
            raise CommandError(
                f"{name} is registered with headers or a secret that could not be put back: "
                f"remove it first (`muster resources rm {name}`)."
            )
    changed: list[str] = []
    try:
        for number, name in enumerate(NAMES, 1):
            changed.append(name)
            await muster.put(resource_path(name), {"url": resources.url_of(number)})
        yield
    finally:
        for name in changed:
            await _restore(muster, name, before[name])


async def _restore(muster: Client, name: str, resource: Mapping[str, Any] | None) -> None:
    if resource is None:
        await _none_if_missing(muster.delete(resource_path(name)))
        return
    settings = {key: resource[key] for key in _SETTINGS if key in resource}
    await muster.put(resource_path(name), settings)


async def _none_if_missing(asking: Awaitable[Any]) -> Any:
    """The answer, or None if there is nothing of that name."""
    try:
        return await asking
    except ProblemResponseError as problem:
        if problem.status != 404:
            raise
        return None
