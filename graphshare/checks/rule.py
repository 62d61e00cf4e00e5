"""Check rules: a code, a level, a reason, a function that finds violations, and two examples.

The examples are the rule's tests and its documentation: it must report the first and must not report the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from graphshare.ir.graph import Node
from graphshare.reports.model import Level, RuleInfo, Steps

if TYPE_CHECKING:
    from graphshare.checks.context import CheckContext


class Violation(msgspec.Struct, frozen=True, eq=False):
    """A place that breaks a rule: ``steps`` in the JSON document or, where ``record`` is set, a record of the parameter file.

    ``record`` is the record's name in messages; an empty text is the file as a whole. ``at`` is a line and a column for places
    that the steps cannot express. ``level`` is that of a violation that is milder than its rule.
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
    find: Callable[[CheckContext], Iterable[Violation]]
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
