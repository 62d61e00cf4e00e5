"""Suppression inside a file: the node attribute ``__graphshare_ignore__`` with codes, or ``*`` for all of them.

MXNet lets any key pass that begins and ends with two underscores, so a file keeps its suppressions through MXNet.
"""

from __future__ import annotations

import re

from graphshare.ir.graph import Node

KEY = "__graphshare_ignore__"
_CODE = re.compile(r"[^\s,;]+")


def codes_of(node: Node) -> tuple[str, ...]:
    """The codes that a node suppresses; ``*`` alone stands for all."""
    text = node.attrs.get(KEY)
    return tuple(_CODE.findall(text)) if text is not None else ()


def suppresses(node: Node, code: str) -> bool:
    """Whether findings of ``code`` at ``node`` are not wanted; ``GS2`` speaks of all that begin so."""
    return any(part == "*" or code.startswith(part) for part in codes_of(node))


def known_code(code: str) -> bool:
    """Whether ``code`` is ``*``, a rule's code or the beginning of one."""
    from graphshare.checks.registry import RULES

    return code == "*" or any(known.startswith(code) for known in RULES)
