"""Regular expressions over names, matched by re2 in time linear in the length of the name.

The standard library's engine backtracks: an expression such as ``(a+)+$`` may take longer than anyone waits. re2 comes with
graphshare wherever it has a wheel.
"""

from __future__ import annotations

import re
from typing import Any

from graphshare.errors import Fault, UsageError

_SURROGATE = "[\ud800-\udfff]"
_NEEDS_BACKTRACKING = ("(?=", "(?!", "(?<", "\\")


class Expression:
    """A regular expression that matches whole names; ``groups`` is the number of its groups.

    Raises:
        UsageError: it is not a regular expression of re2, or re2 is not installed.
    """

    def __init__(self, text: str) -> None:
        self._compiled = _compile(text)
        self.groups: int = self._compiled.groups

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole of ``name``."""
        return self._compiled.fullmatch(_to_text(name)) is not None

    def match_groups(self, name: str) -> list[str] | None:
        """Return what each group matched, empty where it took no part; None where the expression does not match ``name``."""
        match = self._compiled.fullmatch(_to_text(name))
        if match is None:
            return None
        spans = [match.span(number + 1) for number in range(self.groups)]
        return [name[start:end] if start >= 0 else "" for start, end in spans]


def _to_text(name: str) -> str:
    """Return ``name`` with a replacement character for each lone surrogate, a byte that is not UTF-8."""
    return name if name.isascii() else re.sub(_SURROGATE, "\ufffd", name)


def _compile(text: str) -> Any:
    if re.search(_SURROGATE, text):
        raise UsageError(Fault(f"re:{text} is not text in UTF-8"))
    try:
        import re2  # type: ignore[import-untyped,import-not-found,unused-ignore]  # start-up; and it lacks wheels for some systems
    except ImportError:
        _check_syntax(text)
        hint = "pip install google-re2, or use a glob"
        raise UsageError(Fault(f"re:{text} needs re2, which matches in linear time", hint=hint)) from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _refuse(text, reason) from None


def _check_syntax(text: str) -> None:
    """Refuse what no engine accepts, before an engine is asked for."""
    try:
        re.compile(text)
    except (re.error, OverflowError) as error:
        raise _refuse(text, str(error)) from None
    except RecursionError:
        raise _refuse(text, "it is nested too deeply") from None


def _refuse(text: str, reason: str) -> UsageError:
    culprit = reason.rpartition(": ")[2]
    hint = "matching takes linear time, so there is no look-around and no back reference"
    fault = Fault(
        f"re:{text} is not a regular expression: {reason}", hint=hint if culprit.startswith(_NEEDS_BACKTRACKING) else ""
    )
    return UsageError(fault)
