"""The blocks of a configuration that most of its tests begin with."""

from typing import Any

API: dict[str, Any] = {"enabled": True, "url": "https://api.example.com/process"}
KAFKA: dict[str, Any] = {"enabled": True, "topic": "process.completed"}
OFF: dict[str, Any] = {"enabled": False}
