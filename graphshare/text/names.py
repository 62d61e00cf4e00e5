"""Names: keys of parameter records, ``A=B`` pairs, and suggestions for unknown names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from graphshare.text.format import format_names

RECORD_PREFIXES = ("arg", "aux")
_SHORTEST_PART = 2  # characters; a single letter is a part of too many names
_COMPARED = 20_000
_LISTED = 6  # names of a hint where none is similar
_PER_THING = 4  # names that one thing may have
_PAIR = r"((?:[^=\\]|\\.)*)=(.*)"
_NUMBERED = re.compile(r"(.*)#([0-9]{1,9})", re.DOTALL)
T = TypeVar("T")
Key = TypeVar("Key")
Item = TypeVar("Item")


def split_key(key: str) -> tuple[str, str]:
    """Split ``arg:conv1_weight`` into ``("arg", "conv1_weight")``; other keys into ``("", key)``.

    MXNet splits at the first colon, so ``arg:a:b`` names ``a:b``. Gluon's bare names may hold
    colons.
    """
    kind, colon, name = key.partition(":")
    return (kind, name) if colon and kind in RECORD_PREFIXES else ("", key)


def join_key(kind: str, name: str) -> str:
    """Join a prefix and a name, the inverse of :func:`split_key`."""
    return f"{kind}:{name}" if kind else name


def split_pair(text: str) -> tuple[str, str] | None:
    r"""Split ``A=B`` at its first ``=``; ``\=`` in the left name stands for ``=``. None without
    ``=``.
    """
    match = re.fullmatch(_PAIR, text, re.DOTALL)
    return (match[1].replace("\\=", "="), match[2]) if match else None


def unique_names(names: Sequence[str]) -> list[str]:
    """Append ``#1``, ``#2``... to repetitions in ``names``."""
    taken, numbers = set(names), dict.fromkeys(names, -1)
    unique = []
    for name in names:
        numbers[name] += 1
        numbered = name
        while numbers[name] and (numbered := f"{name}#{numbers[name]}") in taken:
            numbers[name] += 1
        taken.add(numbered)
        unique.append(numbered)
    return unique


def find_duplicates(names: Iterable[str]) -> list[str]:
    """Return repeated names, each once, in the order of their first places."""
    return [name for name, count in Counter(names).items() if count > 1]


def index_unique(keyed: Iterable[tuple[Key | None, Item]]) -> dict[Key, Item]:
    """Index items by key, without missing and repeated keys."""
    pairs = list(keyed)
    counts = Counter(key for key, _ in pairs)
    return {key: item for key, item in pairs if key is not None and counts[key] == 1}


class TakenNames:
    """Taken names, and free ones derived by a separator and a number; none is empty."""

    def __init__(self, names: Iterable[str] = (), *, separator: str = "_") -> None:
        self._names, self._separator = set(names), separator
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> None:
        self._names.add(name)

    def take(self, name: str) -> str:
        """Take and return ``name``, or the first free one of ``name_1``, ``name_2``..."""
        free = self.find_free(name)
        self.add(free)
        return free

    def find_free(self, name: str) -> str:
        """Like :meth:`take`, but the name stays free."""
        number = self._numbers.get(name, 0)  # all below are taken
        free = f"{name}{self._separator}{number}" if number else name
        while not free or free in self._names:
            number += 1
            free = f"{name}{self._separator}{number}"
        self._numbers[name] = number
        return free


def find_numbered(name: str, named: Mapping[str, Sequence[T]]) -> T | None:
    """Return the second of several things named ``NAME`` for ``NAME#1``; ``#0`` is the first.

    None if a thing has that very name, or only one has the name ``NAME``.
    """
    match = None if name in named else _NUMBERED.fullmatch(name)
    same = named.get(match[1], ()) if match else ()
    return same[int(match[2])] if match and len(same) > 1 and int(match[2]) < len(same) else None


class KnownPrefixes:
    """Prefixes of names. A graph with many branches has thousands."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._prefixes = frozenset(prefixes)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes}, reverse=True)

    def find_longest(self, name: str) -> str:
        """Return the longest known prefix of ``name``, or an empty text."""
        return next(
            (start for length in self._lengths if (start := name[:length]) in self._prefixes), ""
        )


def find_similar(
    name: str, known: Collection[str], *, limit: int = 3, key: Callable[[str], object] = str
) -> list[str]:
    """Return up to ``limit`` names of ``known`` that resemble ``name``, each once.

    Names that differ only in case are returned alone. Otherwise names that contain ``name``,
    ignoring case, come first, shortest first if they start with it; then names of similar spelling.
    Of names with an equal ``key``, such as a node and its output, one is returned. At most 20,000
    names are compared by spelling, for speed.
    """
    from difflib import get_close_matches  # not needed for --help

    # The name may be a glob that matched nothing.
    part = name.strip("*").casefold()
    same = [text for text in known if text.casefold() == name.casefold()]
    if same:
        return same[:limit]
    near = (
        [text for text in known if part in text.casefold()] if len(part) >= _SHORTEST_PART else []
    )
    near.sort(key=lambda text: (not text.casefold().startswith(part), len(text)))
    near += get_close_matches(name, list(islice(known, _COMPARED)), n=_PER_THING * limit)
    distinct: dict[object, str] = {}
    for text in near:
        distinct.setdefault(key(text), text)
    return list(distinct.values())[:limit]


def suggest(name: str, known: Collection[str], what: str) -> str:
    """Suggest names similar to an unknown one, else the first of ``known``, called ``what``."""
    return did_you_mean(name, known) or (
        f"the {what} are {format_names(known, _LISTED)}" if known else ""
    )


def did_you_mean(name: str, known: Collection[str], *, key: Callable[[str], object] = str) -> str:
    """Suggest names similar to an unknown one (:func:`find_similar`); empty if there are none.

    ``NAME#1`` is not accepted for one of several things named ``NAME``; the hint explains that.
    """
    match = _NUMBERED.fullmatch(name)
    if match and int(match[2]) < (count := list(known).count(match[1])) > 1:
        alone = f"`gs.rename(GRAPH, match={{{name!r}: 'NEW'}})` gives one a name of its own"
        return f"{match[1]!r} means all {count} of that name; {alone}"
    near = find_similar(name, known, key=key)
    return f"did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
