"""Commands that write, under the rules of Windows and of macOS; the whole command line runs with
the plug-in (``.ci/run``).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests import processes
from tests.golden.test_cases import CASES, check_case
from tests.processes import ROOT, done, files_in, graphshare, refused
from tests.surroundings import pick_everyday
from tests.systems.plugin import variables
from tests.systems.rules import SYSTEMS

WRITES = [case for case in CASES if (case / "out").exists()]


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(processes, "SYSTEM", variables(request.param))
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, system: str) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "case", pick_everyday(WRITES, 2), ids=lambda case: f"{case.parent.name}/{case.name}"
)
def test_the_golden_cases_are_the_same(case: Path, system: str, tmp_path: Path) -> None:
    check_case(case, tmp_path)


def test_every_output_is_in_place_and_nothing_else(folder: Path) -> None:
    done(
        graphshare(
            "duplicate",
            "lenet",
            "--prefix",
            "b-",
            "-o",
            "siam",
            "--map-out",
            "siam-map.json",
            cwd=folder,
        )
    )
    done(
        graphshare(
            "duplicate",
            "lenet",
            "--prefix",
            "b-",
            "-o",
            "siam",
            "--map-out",
            "siam-map.json",
            cwd=folder,
        )
    )
    new = ["siam-0000.params", "siam-map.json", "siam-symbol.json"]
    assert files_in(folder) == ["lenet-0000.params", "lenet-symbol.json", *new]


def test_an_input_is_replaced_in_place(folder: Path) -> None:
    done(graphshare("rename", "lenet", "--prefix", "a_", "--in-place", "-o", "lenet", cwd=folder))
    assert b"a_conv1_weight" in (folder / "lenet-0000.params").read_bytes()
    assert files_in(folder) == ["lenet-0000.params", "lenet-symbol.json"]


def test_two_outputs_that_differ_by_case_are_one_file(folder: Path) -> None:
    words = (
        "duplicate",
        "lenet",
        "--prefix",
        "b-",
        "-o",
        "Out.json",
        "--map-out",
        "out.JSON",
        "--params-out",
        "x.params",
    )
    refused(graphshare(*words, cwd=folder), "out.JSON: is named for two outputs")
    assert files_in(folder) == ["lenet-0000.params", "lenet-symbol.json"]


def test_an_input_is_found_whatever_its_case(folder: Path) -> None:
    said = refused(
        graphshare("rename", "lenet", "--prefix", "a_", "-o", "LENET", cwd=folder),
        "LENET-symbol.json",
    )
    assert "--in-place" in said


def test_models_of_a_fleet_that_differ_by_case_are_one_output(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / "models" / name).mkdir(parents=True)
    for path in ("one/net", "two/NET"):
        shutil.copy(folder / "lenet-symbol.json", folder / "models" / f"{path}-symbol.json")
    words = (
        "models/one/*-symbol.json",
        "models/two/*-symbol.json",
        "-o",
        "out",
        "--",
        "rename",
        "{}",
        "--prefix",
        "a_",
    )
    refused(graphshare("foreach", *words, cwd=folder), "would be written there")
    assert not (folder / "out").exists()


def test_here_outputs_may_differ_by_case(tmp_path: Path) -> None:
    shutil.copy(ROOT / "fixtures" / "lenet-symbol.json", tmp_path)
    done(
        graphshare(
            "duplicate",
            "lenet",
            "--prefix",
            "b-",
            "-o",
            "Out.json",
            "--map-out",
            "out.JSON",
            cwd=tmp_path,
        )
    )
    assert files_in(tmp_path) == ["Out.json", "lenet-symbol.json", "out.JSON"]


class TestWindows:
    @pytest.fixture(params=["windows"])
    def system(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(processes, "SYSTEM", variables(request.param))
        return str(request.param)

    def test_paths_have_drives(self, folder: Path) -> None:
        def there(name: str) -> str:
            return "C:" + str(folder / name).replace("/", "\\")

        (folder / "Out").mkdir()
        done(graphshare("duplicate", there("lenet"), "--prefix", "b-", "-o", there("out\\")))
        assert files_in(folder / "Out") == ["lenet-0000.params", "lenet-symbol.json"]
        done(
            graphshare("verify", there("out\\lenet"), "--prefix", "b-", "--shape", "data=1,1,28,28")
        )
        done(
            graphshare(
                "export", there("lenet"), "--shape", "data=1,1,28,28", "-o", there("lenet.onnx")
            )
        )
        done(graphshare("params", "convert", there("lenet-0000.params"), there("lenet.npz")))

    def test_an_output_that_is_open_elsewhere_leaves_all_as_they_were(self, folder: Path) -> None:
        for name in ("siam-0000.params", "siam-symbol.json"):
            (folder / name).write_text("old")
        with (folder / "siam-symbol.json").open():
            words = ("duplicate", "lenet", "--prefix", "b-", "-o", "siam")
            run = graphshare(*words, cwd=folder, GRAPHSHARE_TEST_HOLDER=str(os.getpid()))
        assert b"siam-symbol.json: cannot be written: permission denied" in run.stderr
        assert b"hint: close it in the program that has it open" in run.stderr
        assert (run.returncode, (folder / "siam-0000.params").read_text()) == (2, "old")
        names = ["lenet-0000.params", "lenet-symbol.json", "siam-0000.params", "siam-symbol.json"]
        assert files_in(folder) == names

    def test_excluded_folders_have_either_slash(self, folder: Path) -> None:
        (folder / "models" / "a" / "b").mkdir(parents=True)
        shutil.copy(folder / "lenet-symbol.json", folder / "models" / "a" / "b")
        (folder / "models" / "bad-symbol.json").write_text("{")
        for pattern in ("a/b", "a\\b"):
            run = graphshare("check", "models", "--exclude", pattern, cwd=folder)
            assert b"excluded 1 path" in run.stderr

    def test_names_that_the_code_page_lacks_are_printed(self, folder: Path) -> None:
        text = (folder / "lenet-symbol.json").read_text().replace('"conv1"', '"\u5377\u79ef"')
        (folder / "lenet-symbol.json").write_text(text, encoding="utf-8")
        run = done(graphshare("inspect", "lenet-symbol.json", "--names", cwd=folder))
        assert rb"\u5377\u79ef" in run.stdout
