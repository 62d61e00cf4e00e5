"""Check new names for collisions with each other and with unchanged names; the user resolves a collision."""

from __future__ import annotations

from collections.abc import Iterable

from graphshare.errors import Fault, RefusedError


def check_collisions(kept: Iterable[str], renamed: Iterable[tuple[str, str]]) -> None:
    """Refuse new names that meet a name that stays, or that two different old names would both get.

    ``kept`` are names that stay as they are, ``renamed`` pairs of old and new. An old name may come several times (real graphs
    repeat names): its copies repeat in the same way, which is allowed. Empty names never collide.

    Raises:
        RefusedError: every collision.
    """
    staying = set(kept)
    sources: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    for old, new in renamed:
        if not new:
            continue
        if new in staying:
            hint = "choose another prefix, or rename the existing one first"
            faults.setdefault(new, Fault(f"{old!r} would become {new!r}, a name that the graph already has", hint=hint))
        elif sources.setdefault(new, old) != old:
            faults.setdefault(new, Fault(f"{sources[new]!r} and {old!r} would both become {new!r}"))
    if faults:
        raise RefusedError(faults.values())


def check_prefixes(prefixes: Iterable[str]) -> None:
    """Refuse prefixes that cannot make names: empty, repeated, or with a NUL character.

    Raises:
        RefusedError: every prefix at fault.
    """
    faults = []
    seen: set[str] = set()
    for prefix in prefixes:
        if not prefix:
            faults.append(
                Fault("an empty prefix gives every copy the name of its original", hint="give --prefix some text, as in sha-")
            )
        elif "\0" in prefix:
            faults.append(Fault(f"prefix {prefix!r} contains a NUL character, which MXNet cannot read"))
        elif prefix in seen:
            faults.append(Fault(f"prefix {prefix!r} is given twice", hint="each branch needs a prefix of its own"))
        seen.add(prefix)
    if faults:
        raise RefusedError(faults)
