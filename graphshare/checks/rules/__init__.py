"""The rules, a module each: ``gs101_id_out_of_range.py`` defines the rule GS101. Adding a file here adds the rule."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

_MODULE = re.compile(r"(gs\d{3})_\w+")


@cache
def rule_modules() -> Mapping[str, str]:
    """Return the module name of every rule by code, in the order of the codes. The modules are not imported."""
    matches = (_MODULE.fullmatch(module.name) for module in pkgutil.iter_modules(__path__))
    return MappingProxyType(
        {match[1].upper(): f"{__name__}.{match[0]}" for match in matches if match is not None}
    )
