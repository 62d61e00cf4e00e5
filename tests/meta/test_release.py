"""The script that makes a release: what it refuses, what it writes, and that the archives have what they need."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.surroundings import ROOT


def load_script(name: str) -> Any:
    spec = spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RELEASE = load_script("release")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that could be released as 0.2.0."""
    for path, text in (
        (RELEASE.VERSION, '__version__ = "0.1.0"\n'),
        (RELEASE.CHANGELOG, "# Changes\n\n## 0.2.0 (unreleased)\n\n- x\n"),
        (RELEASE.PROMISES, "# Compatibility\n"),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def test_a_release_is_refused_while_names_may_change(checkout: Path) -> None:
    assert RELEASE.list_reasons(checkout, "0.2.0") == []
    (checkout / RELEASE.PROMISES).write_text(RELEASE.NOT_YET)
    reasons = RELEASE.list_reasons(checkout, "0.2.0")
    assert reasons == [
        f"docs/compatibility.md says: {RELEASE.NOT_YET}",
        "the checkout has changes that are not committed",
    ]


def test_a_release_without_its_tools_is_refused_before_anything_is_written() -> None:
    assert RELEASE.list_missing(("json",)) == []
    assert RELEASE.list_missing(("json", "no_such_tool")) == [
        "no_such_tool is not installed: pip install no_such_tool"
    ]


def test_an_upload_that_fails_says_how_to_repeat_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = checkout.parent / "a.whl"
    built.write_bytes(b"")
    true_run = RELEASE.run

    def run(*words: str | Path, **options: Any) -> str:
        if "twine" not in words:
            return true_run(*words, cwd=checkout)
        if "upload" in words:
            raise RELEASE.RefusedError("no account")
        return "PASSED"

    for name, value in {
        "ROOT": checkout,
        "run": run,
        "check": lambda *_: [built],
        "ask": lambda _: None,
    }.items():
        monkeypatch.setattr(RELEASE, name, value)
    monkeypatch.setattr(RELEASE, "list_missing", list)
    for key in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{key}_NAME", "a")
        monkeypatch.setenv(f"{key}_EMAIL", "a@b")
    with pytest.raises(
        RELEASE.RefusedError,
        match=r"no account\nwhen the reason is gone: .* twine upload .*/dist/a\.whl",
    ):
        RELEASE.release("0.2.0", checkout.parent)
    assert true_run("git", "tag", cwd=checkout).split() == ["v0.2.0"]
    assert (checkout / "dist" / "a.whl").is_file()


def test_now_names_may_change() -> None:
    """The day they may not, this goes with the line."""
    assert RELEASE.NOT_YET in (ROOT / RELEASE.PROMISES).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("0.2", "'0.2' is not a version such as 0.2.0"),
        ("0.0.9", "version 0.1.0 is newer than 0.0.9"),
        ("0.3.0", "CHANGELOG.md has no section '## 0.3.0 (unreleased)'"),
        ("0.2.0", "the tag v0.2.0 exists"),
    ],
)
def test_a_version_that_does_not_fit_is_refused(version: str, reason: str, checkout: Path) -> None:
    git(checkout, "tag", "v0.2.0")
    assert reason in RELEASE.list_reasons(checkout, version)


def test_version_and_day_are_written(checkout: Path) -> None:
    RELEASE.write_version(checkout, "0.2.0", "2027-01-31")
    assert (checkout / RELEASE.VERSION).read_text() == '__version__ = "0.2.0"\n'
    assert "\n## 0.2.0 (2027-01-31)\n" in (checkout / RELEASE.CHANGELOG).read_text()
    with pytest.raises(RELEASE.RefusedError, match=r"CHANGELOG.md has 0 places"):
        RELEASE.write_version(checkout, "0.2.0", "2027-01-31")


def test_a_file_that_an_sdist_lacks_is_found() -> None:
    assert RELEASE.find_missing(["a-1/x", "a-1/d/y"], ["x", "d/y", "z"]) == ["z"]


def test_every_tracked_file_is_of_the_sdist() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    included = text.partition("[tool.hatch.build.targets.sdist]")[2].partition("]\n")[0]
    always = ("pyproject.toml", ".gitignore")
    assert [
        path
        for path in tracked
        if path not in always and f'"/{path.partition("/")[0]}"' not in included
    ] == []


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that makes the package's page; what builds packages need not be installed."""
    interface = ModuleType("interface")
    vars(interface)["MetadataHookInterface"] = SimpleNamespace
    for name in (
        "hatchling",
        "hatchling.metadata",
        "hatchling.metadata.plugin",
        "hatchling.metadata.plugin.interface",
    ):
        monkeypatch.setitem(sys.modules, name, interface)
    return load_script("package_page")


def test_links_of_the_page_lead_to_the_repository_or_nowhere(page: Any) -> None:
    text = "See [how](docs/how.md), [there](https://a.b) and [here](#x).\n\n![A picture](docs/a.svg)\n\nEnd\n"
    assert page.make_page(text, "") == "See how, [there](https://a.b) and [here](#x).\n\nEnd\n"
    absolute = page.make_page(text, "https://host/me/repo/")
    assert "[how](https://host/me/repo/blob/main/docs/how.md)" in absolute
    assert "![A picture](https://host/me/repo/raw/main/docs/a.svg)" in absolute


def test_the_page_of_this_package_has_no_link_that_leads_nowhere(page: Any) -> None:
    text = page.make_page((ROOT / "README.md").read_text(encoding="utf-8"), "")
    assert "](docs/" not in text
    assert "`duplicate`" in text
