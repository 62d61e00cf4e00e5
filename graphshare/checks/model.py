"""What a rule is: a code, a level, one line of reason, a function that finds, and two examples.

The examples are the rule's tests and its documentation: the first must make it speak, the second must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from graphshare.ir.graph import Node
from graphshare.reports.model import Level, RuleInfo, Step

if TYPE_CHECKING:
    from graphshare.checks.subject import Subject


class Found(msgspec.Struct, frozen=True, eq=False):
    """Something a rule found, at ``steps`` of the JSON document or, where ``record`` is set, at a record of the parameter file.

    ``record`` names the record as messages do; an empty text is the file as a whole. ``at`` is a line and a column where no
    document tells the place.
    """

    message: str
    steps: tuple[Step, ...] = ()
    node: Node | None = None
    hint: str = ""
    record: str | None = None
    at: tuple[int, int] = (0, 0)
    name: str | None = None

    @property
    def node_name(self) -> str | None:
        """The name of the node concerned."""
        return self.node.name if self.node is not None else self.name


class ExampleRecord(msgspec.Struct, frozen=True):
    """An array of an example's parameter file, all its elements ``value``. ``shape`` None: never filled."""

    key: str
    shape: tuple[int, ...] | None = (2,)
    dtype: str = "float32"
    value: float = 0.5


class Example(msgspec.Struct, frozen=True):
    """A symbol file, and the records of its parameter file where the rule looks at one (``named``: they have names).

    ``damaged``: only half of the parameter file is there. ``shapes`` are what ``--shape`` gives.
    """

    graph: str | bytes
    params: tuple[ExampleRecord, ...] | None = None
    named: bool = True
    damaged: bool = False
    shapes: Mapping[str, tuple[int | None, ...]] = {}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. ``why`` says what goes wrong otherwise, ``fix`` what ``--fix`` does about it (empty: nothing)."""

    code: str
    name: str
    level: Level
    summary: str
    why: str
    find: Callable[[Subject], Iterable[Found]]
    fails: Example
    passes: Example
    fix: str = ""

    @property
    def info(self) -> RuleInfo:
        """What reports say of the rule."""
        text = f"{self.summary}. {self.why}" + (f" --fix {self.fix}." if self.fix else "")
        return RuleInfo(self.code, self.name, self.level, self.summary, text, bool(self.fix))
