"""Every operator of MXNet 1.9.1 can be authored, or is refused in words."""

from __future__ import annotations

import pytest

from graphshare.builder import Session, placeholder
from graphshare.builder.operators import apply
from graphshare.errors import RefusedError
from graphshare.ir.graph import Graph
from graphshare.ops.registry import load_registered_signatures
from tests.validate import validate

# What required attributes are given, by kind.
SAMPLES = {
    "shape": "(2, 2)", "slice": "(0, 1)", "shapes": "((0, 1),)", "string": "x", "char": "a", "bool": "False",
    "tuple32": "(1,)", "tuple64": "(1,)", "tuple_uint": "(1,)", "floats": "(1.0,)", "doubles": "(1.0,)",
}  # fmt: skip
# What operators need that their signature does not require.
NEEDED = {"_npi_blackman": {"M": "1"}, "_npi_hamming": {"M": "1"}, "_npi_hanning": {"M": "1"}}
MOST_INPUTS = 9


def authored(name: str) -> Graph | None:
    """The graph of one operator on as many inputs as it takes; None where every number is refused."""
    required = [
        p
        for p in load_registered_signatures()[name].parameters or ()
        if p.required and p.name != "num_args"
    ]
    attrs = {
        p.name: p.choices[0] if p.choices else SAMPLES.get(p.kind.rstrip("?"), "1")
        for p in required
    }
    attrs |= NEEDED.get(name, {})
    for count in range(MOST_INPUTS + 1):
        with Session() as session:
            try:
                outputs = apply(name, *(placeholder(f"in{i}") for i in range(count)), **attrs)
            except RefusedError:
                continue
            return session.graph(list(outputs)) if outputs else None
    return None


@pytest.mark.parametrize("name", load_registered_signatures())
def test_every_operator_can_be_authored_or_is_refused(name: str) -> None:
    graph = authored(name)
    assert graph is None or validate(graph) == []


def test_nearly_all_operators_can_be_authored_from_generated_inputs() -> None:
    refused = [name for name in load_registered_signatures() if authored(name) is None]
    assert len(refused) <= 23, refused
