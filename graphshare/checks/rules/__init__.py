"""The rules, a module each: a file ``gs101_id_out_of_range.py`` here adds the rule GS101."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

_MODULE = re.compile(r"(gs\d{3})_\w+")


@cache
def rule_modules() -> Mapping[str, str]:
    """Return the modules of all rules by code, in the order of the codes, without importing them."""
    matches = (_MODULE.fullmatch(module.name) for module in pkgutil.iter_modules(__path__))
    return MappingProxyType(
        {match[1].upper(): f"{__name__}.{match[0]}" for match in matches if match is not None}
    )
