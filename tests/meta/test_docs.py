"""The documentation agrees with the program: generated pages, blocks that were run, links that exist."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import graphshare as graphshare_library
from tests.processes import done, graphshare
from tests.surroundings import is_required, mark_everyday, missing

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def _generator() -> ModuleType:
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("generate")
    finally:
        sys.path.remove(str(DOCS))


GENERATE = _generator()
WRITTEN = GENERATE.written_pages()
PAGES = [page for page in WRITTEN if not GENERATE.is_translation(page)]
TRANSLATIONS = [page for page in WRITTEN if GENERATE.is_translation(page)]
RECIPES = (
    "CONTRIBUTING.md",
    "translating.md",
    "model-formats.md",
    "options.md",
    "parameter-formats.md",
)
STALE = "run `python docs/generate.py`"


def test_generated_files_and_tables_are_up_to_date() -> None:
    generated = GENERATE.render_generated()
    assert {path: path.read_text(encoding="utf-8") for path in generated} == generated, STALE
    assert set((DOCS / "commands").glob("*.md")) <= set(generated)


FACTS, REFERENCE = sys.modules["facts"], sys.modules["api_reference"]


def read_stating_pages() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in GENERATE.list_stating_pages()}


def test_a_figure_of_several_pages_has_a_mark_wherever_it_stands() -> None:
    pages = read_stating_pages()
    figures = {**FACTS.count_facts(), **FACTS.read_measured(pages.values())}
    assert {
        path: lines
        for path, text in pages.items()
        if (lines := FACTS.find_unmarked(text.partition(GENERATE.REFERENCE)[0], figures))
    } == {}
    text = "All 611 are\n611<!-- fact: operators --> and 611 MiB, `611`\n1,024 rows of 256 MiB\n256 KiB"
    assert FACTS.find_unmarked(text, figures) == ["All 611 are", "1,024 rows of 256 MiB"]


def test_every_figure_that_is_marked_stands_on_several_pages() -> None:
    pages = read_stating_pages()
    taken = {name for text in pages.values() for name in FACTS.list_facts(text)}
    assert taken == {*FACTS.count_facts(), *FACTS.read_measured(pages.values())}


def test_figures_are_filled_from_the_one_place_that_states_them() -> None:
    pages = [
        "`--opset 9`<!-- fact: lowest opset -->, 1.5<!-- measured: time --> s",
        "1.4<!-- fact: time --> s",
    ]
    figures = {"lowest opset": "13", **FACTS.read_measured(pages)}
    assert FACTS.fill_facts(pages[0], figures).startswith("`--opset 13`<!-- fact: lowest opset -->")
    assert FACTS.fill_facts(pages[1], figures) == "1.5<!-- fact: time --> s"
    with pytest.raises(ValueError, match="two places state the measured figure 'time'"):
        FACTS.read_measured([pages[0], pages[0]])
    with pytest.raises(ValueError, match="no fact is called 'times'"):
        FACTS.fill_facts("1<!-- fact: times -->", figures)


def test_every_parameter_of_every_function_is_listed() -> None:
    sections = re.split(r"^### (\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), flags=re.M)
    listed = {
        name: re.findall(r"(?:^\| |<br>)`(\w+): ", text, re.M)
        for name, text in zip(sections[1::2], sections[2::2], strict=True)
    }
    functions = {
        name: getattr(graphshare_library, name)
        for name in (*REFERENCE.list_functions(), *REFERENCE.CONSTRUCTED)
    }
    assert {name: sorted(listed.get(name, ())) for name in functions} == {
        n: sorted(inspect.signature(f).parameters) for n, f in functions.items()
    }


def test_the_text_on_a_parameter_stands_once() -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8").partition(GENERATE.REFERENCE)[2]
    for section in re.split(r"^### ", text, flags=re.M):
        meanings = re.findall(r"^\| `.+` \| (.+) \|$", section, re.M)
        assert len(meanings) == len(set(meanings)), section
    shared = text.partition("\n### bind\n")[0]
    for name in REFERENCE.SHARED:
        assert len(re.findall(rf"(?:^\| |<br>)`{name}`", shared, re.M)) == 1, name


def test_a_parameter_that_no_text_explains_is_refused() -> None:
    def cut(model: str, unexplained: int) -> None:
        """Cut the model."""

    with pytest.raises(ValueError, match="no text explains the parameter unexplained of cut"):
        list(REFERENCE.describe_function("cut", cut))


def test_the_value_of_an_option_is_code_with_it() -> None:
    markdown = GENERATE.to_markdown
    assert markdown("--on-collision prefix puts") == "`--on-collision prefix` puts"
    assert markdown("--explain CODE tells more") == "`--explain CODE` tells more"
    assert markdown("--engine numpy,onnxruntime. Then") == "`--engine numpy,onnxruntime`. Then"
    assert markdown("--input-dtype data0=int64, or") == "`--input-dtype data0=int64`, or"
    assert markdown("--strict also fails") == "`--strict` also fails"
    assert markdown("--epoch each stem means") == "`--epoch` each stem means"


def test_the_manual_page_is_valid() -> None:
    if shutil.which("groff") is None:
        missing("docs", "groff is not installed")
    run = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", str(ROOT / "man" / "graphshare.1")],
        capture_output=True,
        timeout=60,
    )
    assert run.stderr == b""
    assert b"--share-input" in re.sub(rb"\x1b\[[0-9;]*m|.\x08", b"", run.stdout)


LONG = ("cookbook", "tutorials")
"""Folders of pages whose blocks take minutes."""
CHECKED_HERE = [page for page in PAGES if not (page.parent.name in LONG and is_required("network"))]
"""With a network, ``test_wheel.py`` runs the pages that take minutes, with the wheel of this checkout."""


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


SHORT = [name_page(page) for page in CHECKED_HERE if page.parent.name not in LONG]
MARKED = [
    *mark_everyday(SHORT, 3),
    *(
        pytest.param(name_page(p), marks=pytest.mark.large)
        for p in CHECKED_HERE
        if p.parent.name in LONG
    ),
]


@pytest.mark.parametrize("name", MARKED)
def test_blocks_show_what_commands_print(name: str, tmp_path: Path) -> None:
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    assert GENERATE.run_blocks(text, GENERATE.prepare_folder(tmp_path, page)) == text, STALE


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_shows_what_its_original_shows(page: Path) -> None:
    text, original = (
        path.read_text(encoding="utf-8") for path in (page, GENERATE.find_original(page))
    )
    assert GENERATE.copy_transcripts(text, original) == text, STALE


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_states_no_other_figures_than_its_original(page: Path) -> None:
    text, original = (
        path.read_text(encoding="utf-8") for path in (page, GENERATE.find_original(page))
    )
    assert FACTS.list_figures(text) - FACTS.list_figures(original) == set()
    assert FACTS.list_figures("494 个 1,024\n```text\n5\n```\n[1](2.md) `13`") == {
        "494",
        "1,024",
        "1",
        "13",
    }


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_has_the_sections_of_its_original(page: Path) -> None:
    own, original = (
        re.findall(r"^#+ ", p.read_text(encoding="utf-8"), re.M)
        for p in (page, GENERATE.find_original(page))
    )
    assert own == original


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.name)
def test_a_translation_has_one_word_for_a_prefix_and_another_for_a_stem(page: Path) -> None:
    """前缀 is a prefix, and nothing else: the stem of files is 文件名主干."""
    assert list_misused_prefixes(page.read_text(encoding="utf-8")) == []
    assert list_misused_prefixes("`x` 是文件名前缀\n名字的前缀\n加上字首") == [
        "`x` 是文件名前缀",
        "加上字首",
    ]


def list_misused_prefixes(text: str) -> list[str]:
    return [
        line
        for line in text.splitlines()
        if re.search(r"文件名?前缀|路径前缀|字首|词头|首码|前置名", line)
    ]


def test_a_translation_that_shows_something_else_is_found() -> None:
    original = "```console\n$ graphshare diff a b\nSAME\n\n$ graphshare diff a c\nDIFFERENT\n(exit code 1)\n```\n"
    page = "```console\n$ graphshare diff a c\nSAME\n```\n"
    expected = "```console\n$ graphshare diff a c\nDIFFERENT\n(exit code 1)\n```\n"
    assert GENERATE.copy_transcripts(page, original) == expected
    with pytest.raises(ValueError, match="does not run graphshare diff a d"):
        GENERATE.copy_transcripts(page.replace("a c", "a d"), original)
    with pytest.raises(ValueError, match="no such block"):
        GENERATE.copy_transcripts("```python\nassert True\n```\n", original)


def test_a_stale_block_is_found(tmp_path: Path) -> None:
    folder = GENERATE.prepare_folder(tmp_path)
    page = "```console\n$ graphshare diff lenet lenet\nSAME: the graphs\n```\n"
    assert GENERATE.run_blocks(page, folder) != page
    with pytest.raises(ValueError, match="AssertionError"):
        GENERATE.run_blocks("```python\nassert 1 == 2\n```", folder)
    with pytest.raises(ValueError, match="not a graphshare command"):
        GENERATE.run_blocks("```console\n$ rm -r /\n```", folder)


def test_messages_are_where_a_terminal_shows_them(tmp_path: Path) -> None:
    page = "```console\n$ graphshare params show lenet --select 'conv1*'\n```\n"
    lines = GENERATE.run_blocks(page, GENERATE.prepare_folder(tmp_path)).splitlines()
    assert lines[2].split()[:2] == ["name", "shape"]
    assert lines[-2].startswith("2 arrays, ")


def test_a_page_shows_all_digits_and_may_differ_in_the_last_ones() -> None:
    same = GENERATE.is_same_output
    assert same("mean 41.579998 in 0.1 s", "mean 41.579999 in 0.2 s")
    assert same("mean 0.0999999977", "mean 0.1")
    assert not same("mean 0.1", "mean 0.0999999977")
    assert not same("mean 41.58", "mean 41.579998")
    assert not same("mean 41.579998", "mean 41.578998")
    assert not same("8 arrays", "9 arrays")
    assert same("1 equal, 0 different", "1 equal, 1 of them near, 0 different")
    assert not same("1 equal, 0 different", "1 equal, 1 of them near, 1 different")
    assert not same("max 1.5", "max 1.50001")
    assert not same("a 1.0", "b 1.0")
    assert same(
        "max abs 5.96e-08, 1.7e-07 of the largest value",
        "max abs 8e-09, 2.71e-06 of the largest value",
    )
    assert not same("max abs 5.96e-08", "max abs 0.1")


def test_every_block_is_run_or_marked_as_text() -> None:
    """Blocks are commands, Python, or files; ``text`` is for MXNet and git, ``sh`` for installation, which CI runs."""
    for page in WRITTEN:
        for language, head in re.findall(
            r"^```(\w+)([^\n]*)$", page.read_text(encoding="utf-8"), re.M
        ):
            allowed = (
                ("console", "python", "sh")
                if page in GENERATE.READMES
                else ("console", "python", "text")
            )
            assert language in allowed or "title=" in head, (page, language)


def test_the_picture_is_what_draw_draws(tmp_path: Path) -> None:
    folder = GENERATE.prepare_folder(tmp_path)
    done(
        graphshare(
            "duplicate", "lenet", "--prefix", "sha-", "--mode", "tie", "-o", "siam", cwd=folder
        )
    )
    done(graphshare("draw", "siam", "--shape", "data=1,1,28,28", "-o", "siam.svg", cwd=folder))
    assert (folder / "siam.svg").read_bytes() == (DOCS / "siamese.svg").read_bytes()


def broken_links(page: Path, text: str) -> list[str]:
    """Return the relative links of a page, outside of its blocks, to files that do not exist."""
    targets = re.findall(
        r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)
    )
    return [
        target for target in targets if "://" not in target and not (page.parent / target).exists()
    ]


def test_relative_links_lead_to_files() -> None:
    for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        assert broken_links(page, page.read_text(encoding="utf-8")) == [], page
    assert broken_links(DOCS / "index.md", "[a](index.md) [b](nothing.md)") == ["nothing.md"]


def list_links(page: Path) -> set[Path]:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return {
        (page.parent / target).resolve()
        for target in targets
        if "://" not in target and target.endswith(".md")
    }


def test_every_tutorial_is_two_clicks_from_the_read_me() -> None:
    first = list_links(ROOT / "README.md")
    second = first.union(*(list_links(page) for page in first))
    tutorials = {path.resolve() for path in (DOCS / "tutorials").glob("*.md")}
    assert tutorials - second == set()
    assert {DOCS / "api.md", DOCS / "cookbook" / "pool.md", DOCS / "onnx.md"} <= first
    assert tutorials - list_links(DOCS / "index.md") == set()


def test_every_page_is_two_clicks_from_the_index() -> None:
    first = list_links(DOCS / "index.md")
    second = first.union(*(list_links(page) for page in first))
    assert {path.resolve() for path in DOCS.rglob("*.md")} - {DOCS / "index.md"} - second == set()


SEARCHED = {
    "siamese": "tutorials/siamese.md",
    "triplet": "cookbook/triplet.md",
    "two heads": "cookbook/heads.md",
    "lm_head": "tutorials/tied-weights.md",
    "tie the embedding": "cookbook/language-model.md",
    "prefill": "cookbook/prefill.md",
    "KV cache": "cookbook/prefill.md",
    "dedupe": "cookbook/pool.md",
    "LoRA": "cookbook/adapters.md",
    "merge": "cookbook/around.md",
    "preprocessing": "cookbook/around.md",
    "postprocessing": "cookbook/around.md",
    "split": "cookbook/splitting.md",
    "extract features": "cookbook/features.md",
    "rename": "commands/rename.md",
    "batch size": "cookbook/sizes.md",
    "MXNet to ONNX": "tutorials/leaving-mxnet.md",
    "BatchNorm": "tutorials/folding.md",
    "quantize": "cookbook/smaller.md",
    "onnx diff": "commands/diff.md",
    "its float16": "still-the-same.md",
    "FLOPs": "commands/inspect.md",
    "CI": "tutorials/ci.md",
}
"""Words that people search for, and the page that answers."""


def test_the_index_has_the_words_that_people_search_for() -> None:
    rows = re.findall(
        r"^\| (.+) \| (.+) \|$", (DOCS / "index.md").read_text(encoding="utf-8"), re.M
    )
    missing_words = {
        word: page
        for word, page in SEARCHED.items()
        if not any(word in task and f"({page})" in links for task, links in rows)
    }
    assert missing_words == {}


_UNITS = "(?:(?:milli)?second|minute|hour)"
_MEASURED = re.compile(
    rf"(?<![\w.`-])\d[\d,.]* (?:m?s|{_UNITS}s?)\b|\b(?:two|three|four|five|ten) {_UNITS}s\b"
    rf"|\b(?:half|third|tenth|fraction) (?:of )?an? {_UNITS}\b"
    r"|\d times (?:as|its|their|a |the )|\b(?:peak|takes?|took)\b.* \d[\d.]* [KkMG]i?B\b"
)
_SOURCE = re.compile(
    r"benchmarks[./]|tests/\w|python -m |pytest|performance\.md|onnx-tools\.md|<!-- fact: s |<!-- fact: seconds "
)


def find_unsourced(text: str) -> list[str]:
    """Return the lines with a measured time, ratio or memory whose section names neither a
    benchmark, a test nor their page.
    """
    sections = re.split(r"^(?=## )", text, flags=re.M)
    prose = [
        re.sub(r"^```.*?^```$|<!--.*?-->", "", s, flags=re.M | re.S)
        for s in sections
        if not _SOURCE.search(s)
    ]
    return [line for section in prose for line in section.splitlines() if _MEASURED.search(line)]


def test_every_measured_figure_has_its_source() -> None:
    pages = [page for page in PAGES if page.name != "api.md"]
    assert {
        page: lines for page in pages if (lines := find_unsourced(page.read_text(encoding="utf-8")))
    } == {}
    measured = ["It takes 3 s.", "2.4 times as long", "in half a second", "took 5 MiB"]
    text = "\n".join(
        [
            "# A",
            measured[0],
            "## B",
            "`benchmarks/a.py`: 4 ms",
            "## C",
            *measured[1:],
            "words of 2 GB",
        ]
    )
    assert find_unsourced(text) == measured


def test_a_source_of_figures_exists() -> None:
    for page in [
        *PAGES,
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "graphshare").rglob("*.py"),
    ]:
        text = page.read_text(encoding="utf-8")
        for module in re.findall(r"\b(benchmarks[./]\w+)", text):
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or path.with_suffix(".md").is_file(), (
                page,
                module,
            )
        for path in re.findall(r"`(tests/[\w/.]+)`", text):
            assert (ROOT / path).exists() or page.name in RECIPES, (page, path)


@pytest.mark.parametrize("name", ["onnx.md", "onnx-zh.md", "paddle.md", "paddle-zh.md"])
def test_the_page_on_a_format_lists_every_command(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([\w-]+)` \| .+ \|$", text, re.M)) == sorted(
        path for path, _ in GENERATE.list_commands() if " " not in path
    )


@pytest.mark.parametrize("name", ["onnx.md", "onnx-zh.md"])
def test_the_page_on_onnx_lists_what_is_refused(name: str) -> None:
    """Of the commands whose row starts with a refusal each is shown to refuse a model."""
    english = (DOCS / "onnx.md").read_text(encoding="utf-8")
    refused = re.findall(
        r"^\| `([\w-]+)` \| (?:is refused|拒绝)", (DOCS / name).read_text(encoding="utf-8"), re.M
    )
    shown = re.findall(r"^\$ graphshare ([\w-]+) .*\nerror: .* is for MXNet graphs", english, re.M)
    assert refused
    assert set(refused) <= set(shown)


def test_the_site_has_every_page() -> None:
    listed = set(
        re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    )
    assert listed == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


@pytest.mark.large
def test_the_site_is_built(tmp_path: Path) -> None:
    if importlib.util.find_spec("material") is None:
        missing("docs", "mkdocs-material is of the docs extra")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-d",
        str(tmp_path / "site"),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300)
    assert run.returncode == 0, run.stderr.decode()
    assert (tmp_path / "site" / "commands" / "diff" / "index.html").exists()
    # A fence that the site's Markdown does not take for one stays in the text.
    unread = [
        page for page in (tmp_path / "site").rglob("*.html") if "```" in page.read_text("utf-8")
    ]
    assert unread == []
