"""Cases that MXNet has not recorded (yet): a module per operator, with ``CASES`` whose outputs are written down.

A case has the form of those in ``tests/kernels/cases``, and ``outputs``: what the kernel must
compute, from the definition. Its gradient is compared with a central difference. A case that MXNet
can record moves to ``tests/kernels/cases``.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

UNRECORDED: list[dict[str, Any]] = [
    case
    for module in iter_modules(__path__)
    for case in import_module(f"{__name__}.{module.name}").CASES
]
