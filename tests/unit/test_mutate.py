"""The faults that tests.mutate plants, and where it looks for the tests that must find them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mutate

SOURCE = '''"""A module."""

LIMIT = 3


def is_small(x: int, text: str = "1") -> bool:
    """Return whether 1 < 2."""
    return not text or (x < 7 and x + 2 == 4)
'''


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    (tmp_path / "module.py").write_text(SOURCE)
    return tmp_path


def test_operators_numbers_and_conditions_of_functions_change(root: Path) -> None:
    changes = {(mutant.before, mutant.after) for mutant in mutate.list_mutants(root / "module.py")}
    assert changes == {
        ("not text or (x < 7 and x + 2 == 4)", "(not text and (x < 7 and x + 2 == 4))"),
        ("x < 7 and x + 2 == 4", "(x < 7 or x + 2 == 4)"),
        ("not text", "(text)"),
        ("x < 7", "(x <= 7)"),
        ("x + 2 == 4", "(x + 2 != 4)"),
        ("x + 2", "(x - 2)"),
        ("7", "(8)"),
        ("2", "(3)"),
        ("4", "(5)"),
    }


@pytest.mark.large
@pytest.mark.parametrize(
    ("test", "found"),
    [("assert is_small(6) is False", True), ("assert is_small(0, '') is True", False)],
)
def test_a_fault_is_found_by_a_test_that_fails(test: str, found: bool, root: Path) -> None:
    (root / "test_module.py").write_text(
        f"from module import is_small\ndef test_it():\n    {test}\n"
    )
    mutants = [
        mutant
        for mutant in mutate.list_mutants(root / "module.py")
        if mutant.before == "x < 7 and x + 2 == 4"
    ]
    assert [
        mutate.is_found(mutant, ["test_module.py"], root, limit=60.0) for mutant in mutants
    ] == [found]
    assert (root / "module.py").read_text() == SOURCE


def test_a_fault_that_breaks_the_import_of_all_tests_is_found(root: Path) -> None:
    (root / "conftest.py").write_text("from module import is_small\nassert is_small(2) is True\n")
    (root / "test_module.py").write_text("def test_it():\n    pass\n")
    mutant = next(
        mutant
        for mutant in mutate.list_mutants(root / "module.py")
        if mutant.before == "x + 2 == 4"
    )
    assert mutate.is_found(mutant, ["test_module.py"], root, limit=60.0)


def test_tests_that_do_not_run_find_nothing(root: Path) -> None:
    mutant = next(mutate.list_mutants(root / "module.py"))
    with pytest.raises(SystemExit, match="did not run"):
        mutate.is_found(mutant, ["test_nothing.py"], root, limit=60.0)


def test_every_place_of_the_package_has_tests() -> None:
    table = mutate.read_table()
    packages = [
        path
        for path in (mutate.ROOT / "graphshare").iterdir()
        if path.name not in ("__pycache__", "py.typed")
    ]
    modules = [
        f"graphshare/{path.stem}/x.py" if path.is_dir() else f"graphshare/{path.name}"
        for path in packages
    ]
    named = {place for places, _ in table for place in places}
    assert {Path(module).parts[1].removesuffix(".py") for module in modules} - named == {
        "__init__",
        "version",
    }
    assert all(mutate.find_tests(module, table) for module in modules)


def test_the_row_of_a_kind_of_module_comes_before_that_of_its_package() -> None:
    table = [(["ops"], ["kernels"]), (["ops/<family>/to_onnx.py"], ["export"])]
    assert mutate.find_tests("graphshare/ops/loss/to_onnx.py", table) == ["tests/export"]
    assert mutate.find_tests("graphshare/ops/loss/kernel.py", table) == ["tests/kernels"]
