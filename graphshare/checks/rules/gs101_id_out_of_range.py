"""GS101: an id that refers to no node."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level, parse_path


def find(subject: Subject) -> Iterator[Found]:
    """Every such id of inputs, control dependencies, heads and ``arg_nodes``."""
    reading = subject.reading
    for fault in (*reading.unlinked, *(f for f in reading.wrong_arguments if "operator" not in f.message)):
        yield Found(fault.message, parse_path(fault.path) or (), hint=fault.hint, name=fault.node)


RULE = Rule(
    code="GS101",
    name="id-out-of-range",
    level=Level.ERROR,
    summary="An id refers to a node that is not there",
    why="MXNet refuses the file with a bare Check failed: e.node_id < jgraph.nodes.size().",
    find=find,
    fails=Example(dense().replace('"heads": [[3,', '"heads": [[9,')),
    passes=Example(dense()),
)
