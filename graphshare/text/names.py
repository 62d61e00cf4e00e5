"""Names: labels of nodes, keys of parameter records, and near misses.

A name identifies nothing in a graph (edges do); these functions only read and build text.
"""

from __future__ import annotations

import re
from collections.abc import Collection

KINDS = ("arg", "aux")
_PAIR = re.compile(r"((?:[^=\\]|\\.)*)=(.*)", re.DOTALL)


def split_key(key: str) -> tuple[str, str]:
    """``arg:conv1_weight`` -> ``("arg", "conv1_weight")``; a key without a known prefix -> ``("", key)``.

    MXNet splits at the first colon, so ``arg:a:b`` names ``a:b``. Unknown prefixes belong to the name (Gluon's bare names
    may hold colons).
    """
    kind, colon, name = key.partition(":")
    return (kind, name) if colon and kind in KINDS else ("", key)


def join_key(kind: str, name: str) -> str:
    """The inverse of :func:`split_key`."""
    return f"{kind}:{name}" if kind else name


def split_pair(text: str) -> tuple[str, str] | None:
    r"""``A=B`` split at its first ``=``; ``\=`` in the left name stands for ``=``. None where there is none."""
    match = _PAIR.fullmatch(text)
    return (match[1].replace("\\=", "="), match[2]) if match else None


def suggestions(name: str, known: Collection[str], *, limit: int = 3) -> list[str]:
    """Up to ``limit`` names of ``known`` that ``name`` may have been meant for, best first.

    Looks at 20,000 names at most, so that a typing error in a huge graph is still answered at once.
    """
    from difflib import get_close_matches
    from itertools import islice

    return get_close_matches(name, list(islice(known, 20_000)), n=limit, cutoff=0.6)


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A hint for an unknown name, or an empty string when nothing is near."""
    near = suggestions(name, known)
    return f"did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
