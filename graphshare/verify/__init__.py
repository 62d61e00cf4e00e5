"""The proof that branches compute the same: structure, parameters, values.

The package bears the name of the function that users call, so it is one: ``graphshare.verify(source)``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        return import_module("graphshare.api").verify(*args, **options)  # found by name: the function stands floors above


sys.modules[__name__].__class__ = _Callable
