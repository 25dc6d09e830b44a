"""Registers the demo's resources with Muster, and puts back what was registered before."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from cli.gathers.resources import resource_path
from cli.shell.client import Client
from cli.shell.errors import CommandError
from tools.demo.gathers.resource import DemoResources
from tools.demo.gathers.scenario import NAMES
from tools.demo.runner import none_on

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
    """Register the demo's resources for as long as the block lasts."""
    before = {name: await none_on(muster.get(resource_path(name)), 404) for name in NAMES}
    for name, resource in before.items():
        # Muster never shows their values, so only their owner could put them back.
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
        await none_on(muster.delete(resource_path(name)), 404)
        return
    settings = {key: resource[key] for key in _SETTINGS if key in resource}
    await muster.put(resource_path(name), settings)
