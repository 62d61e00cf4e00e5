"""Suppression inside a file: the node attribute ``__graphshare_ignore__`` lists codes, or ``*`` for all of them.

MXNet accepts any key that begins and ends with two underscores, so a file that passes through MXNet keeps its suppressions.
"""

from __future__ import annotations

import re

from graphshare.checks.rules import rule_modules
from graphshare.ir.graph import Node

KEY = "__graphshare_ignore__"
_CODE = re.compile(r"[^\s,;]+")


def read_suppressed_codes(node: Node) -> tuple[str, ...]:
    """Return the codes that a node suppresses; ``*`` stands for all."""
    text = node.attrs.get(KEY)
    return tuple(_CODE.findall(text)) if text is not None else ()


def is_suppressed(node: Node, code: str) -> bool:
    """Whether ``node`` suppresses findings of ``code``; ``GS2`` stands for all codes that begin so."""
    return any(part == "*" or code.startswith(part) for part in read_suppressed_codes(node))


def is_known_code(code: str) -> bool:
    """Whether ``code`` is ``*``, a rule's code or the beginning of one."""
    return code == "*" or any(known.startswith(code) for known in rule_modules())
