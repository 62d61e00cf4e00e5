"""Faults hide what URLs contain of secrets, wherever a URL is in them, and are told in one line."""

from __future__ import annotations

import pytest

from graphshare.errors import Fault

SECRET = "https://me:secret@host/a.json?signature=secret"


@pytest.mark.parametrize("name", ["where", "message", "hint"])
def test_a_secret_is_hidden_in_each_part(name: str) -> None:
    fault = Fault(**{"message": "cannot be read", name: f"see {SECRET}"})
    assert "secret" not in getattr(fault, name)
    assert "https://host/a.json" in getattr(fault, name)
    assert "secret" not in str(fault)


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (Fault("is odd"), "is odd"),
        (Fault("is odd", where="a.json"), "a.json: is odd"),
        (Fault("is odd", path="$.nodes"), "$.nodes: is odd"),
        (
            Fault("is odd", where="a.json", path="$.nodes", node="fc"),
            'a.json: $.nodes (node "fc"): is odd',
        ),
        (Fault("is odd", node=""), '(node ""): is odd'),
    ],
)
def test_a_fault_is_its_place_and_its_message(fault: Fault, line: str) -> None:
    assert str(fault).splitlines()[0] == line
