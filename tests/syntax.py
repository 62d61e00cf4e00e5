"""Syntax trees of modules: many tests look at all modules, and parsing them takes longer than a walk."""

from __future__ import annotations

import ast
import gc
from functools import cache


@cache
def parse(source: str) -> ast.Module:
    """Return the syntax tree of a source, which nobody may change; parsed once in a process."""
    # Nothing of a tree is garbage, and the collector would walk it again and again.
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.freeze()
        gc.enable()
