"""Check rules: a level, a reason, two examples, and a function that finds violations; the file has its code and its name.

The examples are the rule's tests and its documentation: it must report the first and must not report the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from graphshare.checks.context import CheckContext as CheckContext
from graphshare.errors import Fault
from graphshare.ir.graph import Node
from graphshare.reports.model import Level as Level
from graphshare.reports.model import RuleInfo, Steps, parse_path


class Violation(msgspec.Struct, frozen=True, eq=False):
    """A place that breaks a rule: ``steps`` in the JSON document or, where ``record`` is set, a record of the parameter file.

    Without ``steps`` it is where the document has ``node``, and the document as a whole where it has not. ``record`` is
    the record's name in messages; an empty text is the file as a whole. ``at`` is a line and a column for places that the steps
    cannot express. ``level`` is that of a violation that is milder than its rule.
    """

    message: str
    steps: Steps = ()
    node: Node | None = None
    hint: str = ""
    record: str | None = None
    at: tuple[int, int] = (0, 0)
    name: str | None = None
    level: Level | None = None

    @property
    def node_name(self) -> str | None:
        """The name of the node concerned."""
        return self.node.name if self.node is not None else self.name

    @staticmethod
    def of_fault(fault: Fault) -> Violation:
        """Return the violation that a reader has found."""
        return Violation(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


Violations = Iterator[Violation]
FindViolations = Callable[[CheckContext], Violations]


class ExampleRecord(msgspec.Struct, frozen=True):
    """An array in an example's parameter file, filled with ``value``; one whose ``shape`` is None was never filled."""

    key: str
    shape: tuple[int, ...] | None = (2,)
    dtype: str = "float32"
    value: float = 0.5


class Example(msgspec.Struct, frozen=True):
    """A symbol file, and the records of its parameter file if the rule needs one.

    ``named``: the records have names; ``damaged``: the parameter file is cut in half; ``shapes`` are those of ``--shape``.
    """

    graph: str | bytes
    params: tuple[ExampleRecord, ...] | None = None
    named: bool = True
    damaged: bool = False
    shapes: Mapping[str, tuple[int | None, ...]] = {}


class CheckRule(msgspec.Struct, frozen=True, kw_only=True):
    """One check. ``why`` tells what goes wrong otherwise, ``fix`` what ``--fix`` does (empty: nothing).

    ``format`` is that of the graphs it looks at. Without ``runs_after_errors`` it only looks at those in which no other rule
    finds an error.
    """

    code: str
    name: str
    level: Level
    summary: str
    why: str
    find: FindViolations
    fails: Example
    passes: Example
    fix: str = ""
    format: str = "mxnet"
    runs_after_errors: bool = True

    @property
    def info(self) -> RuleInfo:
        """The description of the rule in reports."""
        text = f"{self.summary}. {self.why}" + (f" --fix {self.fix}." if self.fix else "")
        return RuleInfo(self.code, self.name, self.level, self.summary, text, bool(self.fix))


def check_rule(
    *,
    level: Level,
    summary: str,
    why: str,
    fails: Example,
    passes: Example,
    fix: str = "",
    format: str = "mxnet",
    runs_after_errors: bool = True,
) -> Callable[[FindViolations], CheckRule]:
    """Make a rule of the function that finds its violations. Its module's name has its code and its name."""

    def make(find: FindViolations) -> CheckRule:
        code, _, name = find.__module__.rpartition(".")[2].partition("_")
        return CheckRule(
            code=code.upper(),
            name=name.replace("_", "-"),
            level=level,
            summary=summary,
            why=why,
            find=find,
            fails=fails,
            passes=passes,
            fix=fix,
            format=format,
            runs_after_errors=runs_after_errors,
        )

    return make
