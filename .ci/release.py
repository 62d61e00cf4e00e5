"""Makes a release: version, changelog, archives, their checks, tag, upload. docs/releasing.md describes each step.

python .ci/release.py 0.2.0            everything up to the tag; asks before the tag and before the upload
python .ci/release.py --check          builds and checks the archives of this commit, as CI does
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = Path("graphshare/version.py")
CHANGELOG = Path("CHANGELOG.md")
PROMISES = Path("docs/compatibility.md")
NOT_YET = "Names of options may still change."
"""While this line stands in :data:`PROMISES` there is no release."""
TOOLS = ("build", "twine")
"""Modules that a release takes; without the last one it would stop behind the tag."""


class RefusedError(Exception):
    """The release cannot be made; the text says why."""


def run(*words: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command and return its stdout. Raises RefusedError with what it said when it fails."""
    clean = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env={**clean, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RefusedError(
            f"{' '.join(map(str, words))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def list_reasons(root: Path, version: str) -> list[str]:
    """Return the reasons not to release ``version`` from a checkout; empty for none."""
    reasons = []
    current = re.findall(r'__version__ = "(.*)"', (root / VERSION).read_text(encoding="utf-8"))[0]
    changes = (root / CHANGELOG).read_text(encoding="utf-8")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        reasons.append(f"{version!r} is not a version such as 0.2.0")
    elif tuple(map(int, version.split("."))) < tuple(map(int, current.split("."))):
        reasons.append(f"version {current} is newer than {version}")
    if f"## {version} (unreleased)\n" not in changes:
        reasons.append(f"{CHANGELOG} has no section '## {version} (unreleased)'")
    if NOT_YET in (root / PROMISES).read_text(encoding="utf-8"):
        reasons.append(f"{PROMISES} says: {NOT_YET}")
    if run("git", "status", "--porcelain", cwd=root).strip():
        reasons.append("the checkout has changes that are not committed")
    if version in [tag.removeprefix("v") for tag in run("git", "tag", cwd=root).split()]:
        reasons.append(f"the tag v{version} exists")
    return reasons


def list_missing(tools: Iterable[str] = TOOLS) -> list[str]:
    """Return a reason not to release for each module of ``tools`` that this Python lacks."""
    return [
        f"{name} is not installed: pip install {name}" for name in tools if find_spec(name) is None
    ]


def write_version(root: Path, version: str, day: str) -> None:
    """Write the version, and the day of the release into the changelog."""
    for path, pattern, text in (
        (VERSION, r'__version__ = ".*"', f'__version__ = "{version}"'),
        (CHANGELOG, rf"## {re.escape(version)} \(unreleased\)", f"## {version} ({day})"),
    ):
        old = (root / path).read_text(encoding="utf-8")
        new, count = re.subn(pattern, text, old)
        if count != 1:
            raise RefusedError(f"{path} has {count} places for the version")
        (root / path).write_text(new, encoding="utf-8")


def build(folder: Path) -> tuple[Path, Path]:
    """Build the archives of the last commit in a clone, so that nothing else gets into them; return sdist and wheel."""
    run("git", "clone", "-q", ROOT, folder / "clone")
    run(sys.executable, "-m", "build", "-o", folder / "dist", folder / "clone")
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return sdist, wheel


def find_missing(archive: Iterable[str], tracked: Iterable[str]) -> list[str]:
    """Return the tracked files that an sdist lacks."""
    inside = {name.partition("/")[2] for name in archive}
    return sorted(set(tracked) - inside)


def check_contents(sdist: Path, wheel: Path) -> None:
    """Raise RefusedError unless the sdist has every tracked file, and the wheel its metadata and no tests."""
    with tarfile.open(sdist) as archive:
        missing = find_missing(archive.getnames(), run("git", "ls-files").splitlines())
    if missing:
        raise RefusedError(f"the sdist lacks {', '.join(missing[:10])}")
    with zipfile.ZipFile(wheel) as package:
        names = package.namelist()
        (metadata,) = (package.read(name).decode() for name in names if name.endswith("/METADATA"))
    if strangers := [name for name in names if not name.startswith(("graphshare/", "graphshare-"))]:
        raise RefusedError(f"the wheel has {', '.join(strangers[:10])}")
    if broken := re.findall(r"\]\((?!https?://|#)[^)]*\)", metadata):
        raise RefusedError(
            f"the page of the package has links that lead nowhere: {', '.join(broken[:10])}"
        )


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel alone, outside of the checkout, and use it: main job, proof, pictures, a
    fleet, manual, ONNX.
    """
    fixtures = ROOT / "fixtures"
    (folder / "work").mkdir()
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        (folder / "work" / name).write_bytes((fixtures / name).read_bytes())
    run(sys.executable, "-m", "venv", folder / "env")
    bin_folder = folder / "env" / "bin"
    run(bin_folder / "python", "-m", "pip", "install", "-q", wheel)
    for line in (
        "duplicate lenet --prefix b- --mode tie -o siam",
        "verify siam --prefix b- --shape data=1,1,28,28",
        "draw siam -o siam.svg",
        "foreach *-symbol.json --jobs 2 -- check {}",
        "completion bash",
    ):
        run(bin_folder / "graphshare", *line.split(), cwd=folder / "work")
    if not (folder / "env" / "share" / "man" / "man1" / "graphshare.1").is_file():
        raise RefusedError("the wheel installs no manual page")
    run(bin_folder / "python", "-m", "pip", "install", "-q", f"{wheel}[onnx]")
    run(
        bin_folder / "graphshare",
        *"export lenet --shape data=1,1,28,28 -o lenet.onnx".split(),
        cwd=folder / "work",
    )


def try_sdist(sdist: Path, folder: Path, tests: list[str]) -> str:
    """Unpack the sdist, install it with the needs of its tests, and run them there; return pytest's last line."""
    (folder / "unpacked").mkdir()
    # Early versions of Python 3.10 and 3.11 have no filters in tarfile
    run("tar", "xzf", sdist, "-C", folder / "unpacked")
    (root,) = (folder / "unpacked").iterdir()
    run(sys.executable, "-m", "venv", folder / "tests")
    python = folder / "tests" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", f"{root}[test]")
    return (
        run(python, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", *tests, cwd=root)
        .strip()
        .splitlines()[-1]
    )


def check(folder: Path, tests: list[str]) -> tuple[Path, Path]:
    """Build and try the archives of the last commit; return them."""
    archives = build(folder)
    check_contents(*archives)
    try_wheel(archives[1], folder)
    print(f"wheel: {archives[1].name}, tried in an environment of its own")
    print(f"sdist: {archives[0].name}, its tests: {try_sdist(archives[0], folder, tests)}")
    return archives


def ask(question: str) -> None:
    """Raise RefusedError unless the answer is yes."""
    if input(f"{question} [yes/no] ").strip() != "yes":
        raise RefusedError("stopped; nothing further was done")


def release(version: str, folder: Path) -> None:
    """Release a version. Raises RefusedError where something is in the way."""
    if reasons := [*list_reasons(ROOT, version), *list_missing()]:
        raise RefusedError("\n".join(reasons))
    write_version(ROOT, version, datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))
    run("git", "commit", "-aqm", f"Release {version}")
    # Git ignores it; an upload that fails can be repeated from there
    (ROOT / "dist").mkdir(exist_ok=True)
    archives = [str(shutil.copy(archive, ROOT / "dist")) for archive in check(folder, [])]
    print(run(sys.executable, "-m", "twine", "check", "--strict", *archives))
    ask(f"tag the last commit as v{version}?")
    run("git", "tag", "-a", f"v{version}", "-m", f"graphshare {version}")
    ask("upload sdist and wheel to the package index?")
    upload = (
        sys.executable,
        "-m",
        "twine",
        "upload",
        "--non-interactive",
        "--disable-progress-bar",
        *archives,
    )
    try:
        print(run(*upload))
    except (
        RefusedError
    ) as error:  # the tag stands, and a second release of this version would be refused
        raise RefusedError(f"{error}\nwhen the reason is gone: {' '.join(upload)}") from error
    print("now: git push --follow-tags")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", nargs="?", help="the version to release")
    parser.add_argument("--check", action="store_true", help="build and check the archives only")
    parser.add_argument(
        "--tests",
        nargs="*",
        default=[],
        help="with --check: tests to run in the unpacked sdist [all]",
    )
    options = parser.parse_args()
    if bool(options.version) == options.check:
        parser.error("give a version or --check")
    try:
        with tempfile.TemporaryDirectory(prefix="graphshare-release-") as folder:
            check(Path(folder), options.tests) if options.check else release(
                options.version, Path(folder)
            )
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
