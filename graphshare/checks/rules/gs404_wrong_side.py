"""GS404: ``arg:`` where ``aux:`` belongs, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from graphshare.checks.examples import normalized
from graphshare.checks.model import Example, ExampleRecord, Found, Rule
from graphshare.checks.subject import Held, Subject
from graphshare.reports.model import Level
from graphshare.text.names import join_key

_CHANNELS = [ExampleRecord(f"arg:bn_{formal}", (3,)) for formal in ("gamma", "beta")]
_VAR = ExampleRecord("aux:bn_moving_var", (3,))


def find(subject: Subject) -> Iterator[Found]:
    """Each record under a prefix that its variable has not."""
    for held, key in misfiled(subject):
        hint = "the graph decides: a variable that some operator writes into is auxiliary"
        yield Found(f"{held.record.key!r} should be {key!r}", hint=hint, record=held.place)


def misfiled(subject: Subject) -> list[tuple[Held, str]]:
    """Such records, each with the key it should have; nothing where an operator of unknown states uses the variable."""
    if not subject.sound or subject.params is None:
        return []
    unknown = {
        entry.node.name
        for _, node in subject.operators()
        if node.op == "Custom" or not subject.is_known(node)
        for entry in node.inputs
    }
    found = []
    for held in subject.records:
        kinds = subject.kinds.get(held.name)
        if held.kind and kinds and held.kind not in kinds and held.name not in unknown:
            found.append((held, join_key(min(kinds), held.name)))
    return found


RULE = Rule(
    code="GS404",
    name="wrong-side",
    level=Level.ERROR,
    summary="A record is filed under arg: and its variable is an auxiliary state, or the other way round",
    why="load_checkpoint hands it over in the wrong dictionary, and Module does not find it.",
    find=find,
    fails=Example(normalized(), (*_CHANNELS, ExampleRecord("arg:bn_moving_mean", (3,)), _VAR)),
    passes=Example(normalized(), (*_CHANNELS, ExampleRecord("aux:bn_moving_mean", (3,)), _VAR)),
    fix="writes the parameter file anew with the key that fits",
)
