"""Globs over paths: ``*``, ``?`` and ``[...]`` within a name, ``**`` for any folders; hidden names only by a written dot."""

from __future__ import annotations

from functools import lru_cache

from graphshare.text.patterns import Matcher, compile_pattern


def match_path(path: str, pattern: str) -> bool:
    """Return whether a glob matches a whole path, in time that grows with the product of their lengths at most."""
    names, globs = path.split("/"), pattern.split("/")
    at = wanted = 0
    retry = (-1, -1)  # the last ** and how many names it stands for, up to here
    while at < len(names):
        if wanted < len(globs) and globs[wanted] == "**":
            retry = wanted, at
            wanted += 1
        elif wanted < len(globs) and _match_name(names[at], globs[wanted]):
            at, wanted = at + 1, wanted + 1
        elif retry[0] >= 0 and not names[retry[1]].startswith("."):
            retry = retry[0], retry[1] + 1
            at, wanted = retry[1], retry[0] + 1
        else:
            return False
    return all(glob == "**" for glob in globs[wanted:])


def _match_name(name: str, glob: str) -> bool:
    if not glob or (name.startswith(".") and not glob.startswith(".")):
        return name == glob
    return _compile(glob)(name)


@lru_cache(maxsize=64)
def _compile(glob: str) -> Matcher:
    marked = f"[{glob[0]}]{glob[1:]}" if glob.startswith(("=", "re:")) else glob  # elsewhere these begin other patterns
    return compile_pattern(marked)
