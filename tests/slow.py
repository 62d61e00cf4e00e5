"""Add to ``slow.txt``, the functions whose tests a run of everything leaves out everyday:

    pytest -n 2 --dist worksteal --durations=0 > LOG; python -m tests.slow LOG SECONDS

These are the functions whose cases took so many seconds together. They run where ``large`` is
required, and where tests are asked for by path or name. Tests of the code's language and shape
stay.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

RECORDED = Path(__file__).with_name("slow.txt")
KEPT = "tests/meta/"
_DURATION = re.compile(r"(\d+\.\d+)s (?:call|setup) +([^\[\s]+)")


@cache
def read_slow() -> frozenset[str]:
    """Return the recorded functions, such as ``tests/cli/test_run.py::test_it``."""
    return frozenset(RECORDED.read_text(encoding="utf-8").split())


def find_slow(log: Iterable[str], seconds: float) -> list[str]:
    """Return the functions whose cases took at least ``seconds`` in a log of pytest, sorted."""
    taken: dict[str, float] = defaultdict(float)
    for match in filter(None, map(_DURATION.match, log)):
        if not match[2].startswith(KEPT):
            taken[match[2]] += float(match[1])
    return sorted(name for name, total in taken.items() if total >= seconds)


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    # A run of everything has left out those that are recorded.
    slow = sorted({*read_slow(), *find_slow(lines, float(sys.argv[2]))})
    RECORDED.write_text("\n".join(slow) + "\n", encoding="utf-8")
