"""The files of the recipe for a model format are those that the contract tries."""

from __future__ import annotations

import pytest

from tests.meta.test_code_shape import count_statements
from tests.meta.test_contributing import read_recipe
from tests.surroundings import ROOT


@pytest.mark.parametrize(
    ("recipe", "title", "tried"),
    [
        ("Add a model format", "graphshare/formats/toy.py", "toy_format.py"),
        ("Add a backend", "graphshare/execute/backends/toy_backend.py", "toy_backend.py"),
    ],
)
def test_the_recipe_has_the_format_that_is_tried(recipe: str, title: str, tried: str) -> None:
    (block,) = (block for block in read_recipe(recipe) if block.title == title and not block.after)
    text = (ROOT / "tests" / "contract" / tried).read_text(encoding="utf-8")
    assert block.body == text
    assert title != "graphshare/formats/toy.py" or count_statements(text)[""] <= 50
