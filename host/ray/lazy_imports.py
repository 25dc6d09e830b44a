"""Modules that Ray imports and uses only elsewhere are loaded when first used.

They are a third of what `import ray` costs, which every process of an instance pays.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# For TPUs, for `runtime_env` and for files of node labels.
UNUSED_HERE = ("requests", "jsonschema", "yaml")


class _DeferredModule(ModuleType):
    """Stands in for a module until one of its attributes is asked for."""

    # Not `importlib.util.LazyLoader`: what it makes is loaded by the next `import`.
    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def defer_imports(names: tuple[str, ...] = UNUSED_HERE) -> None:
    """Let the next imports of these modules do nothing yet."""
    for name in names:
        if name not in sys.modules and (spec := find_spec(name)) is not None:
            sys.modules[name] = module = _DeferredModule(name)
            module.__spec__ = spec
