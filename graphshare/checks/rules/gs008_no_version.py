"""GS008: no version, in a file that is younger than the format's first."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.reports.model import Level


def find(subject: Subject) -> Iterator[Found]:
    """The file, where it lacks a version that its own generation wrote."""
    if subject.sound and subject.graph.version is None and not _is_oldest(subject):
        hint = 'add "attrs": {"mxnet_version": ["int", N]} with the version that wrote it, 10901 for 1.9.1'
        yield Found("has no mxnet_version, so MXNet takes it for 0.8.0 and upgrades it", hint=hint)


def _is_oldest(subject: Subject) -> bool:
    """Files of 2015 have no version and need none: their nodes have ``param``."""
    return any(node.form is not None and "param" in node.form.keys for node in subject.graph.nodes)


RULE = Rule(
    code="GS008",
    name="no-version",
    level=Level.WARNING,
    summary="The graph does not say which MXNet wrote it",
    why="MXNet takes such a file for one of 0.8.0: it invents missing inputs, argmax along axis -1 becomes flat, hidden keys "
    "are moved. Files of 2015, whose nodes have param, never had a version and are left alone.",
    find=find,
    fails=Example(dense().replace(',\n "attrs": {"mxnet_version": ["int", 10901]}', "")),
    passes=Example(dense()),
)
