"""The package speaks plain English: no banned phrase in code, messages or documentation, and functions are verbs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.surroundings import ROOT

#: A phrase as a regular expression (ignoring case), and what to write instead.
PHRASES = {
    r"\bheld (against|to (?!be\b)|together)": "compared with, checked against, validated",
    r"\b(holds?|holding) .{0,40}\bagainst\b": "compares with, checks against",
    r"\bas mxnet (has|have)\b": "as in MXNet",
    r"\bas (it|they) (has|have) (it|them)\b": "MXNet's behaviour",
    r"\ball the same\b": "anyway, still",
    r"\bsays? on standard error\b": "writes to stderr",
    r"\b(bears?|bearing|bearers?|borne)\b": "contains, uses, has the name",
    r"\bmend(s|ed|ing|able)?\b": "fix, fixable",
    r"\btalks?\b": "messages",
    r"\b(whoever|whichever way|nobody|somebody|anybody)\b": "a sentence with a subject",
    r"\bto be had\b": "available",
    r"\b(gone back|goes back over)\b": "backward pass, run the tape backwards",
    r"\bturned again\b": "rotated",
    r"\b(what|which|that) (is|are) (?-i:no|none)\b(?! longer)": "is not a ..., none of ...",
    r"(?<!there )\bis no (?!longer|less|more|different|need|other way)\w+": "is not a ...",
    r"\baxis of the samples\b|\bwhere the samples are\b": "batch axis",
    r"\binner graphs?\b": "subgraph body",
    r"\bno other is wanted\b": "expected exactly one of ...",
    r"\bone behind the other\b": "in a row, joined",
    r"\bso to speak\b|\bas it were\b": "nothing",
}
#: Function names that begin with one of these are participles of irregular verbs.
IRREGULAR = set(
    """
    begun bent bound brought built caught chosen done drawn fed felt found given gone grown heard held hidden kept known laid
    led left lent lost made meant met paid said seen sent shown spelled spelt spun stood taken taught thought thrown told
    understood won worn woven written
    """.split()
)
#: Words on "ed" that are not participles.
VERBS_IN_ED = set("embed exceed feed need proceed seed shed speed succeed".split())
MAX_PARTICIPLES = 60


def list_pages(root: Path) -> Iterator[Path]:
    """Yield the files whose language is tested: code of the package, the read-me, and the documentation."""
    yield from sorted((root / "graphshare").rglob("*.py"))
    yield from sorted(root.glob("*.md"))
    yield from sorted((root / "docs").rglob("*.md"))


def find_phrases(pages: Iterable[Path], root: Path) -> list[str]:
    """Return the places of banned phrases, each with what to write instead."""
    every = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in PHRASES.items()]
    places = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        patterns = [(pattern, instead) for pattern, instead in every if pattern.search(text)]
        for number, line in enumerate(text.split("\n"), 1):
            for pattern, instead in patterns:
                match = pattern.search(line)
                if match is not None and not is_quoted(line, match):
                    places.append(f"{page.relative_to(root)}:{number}: {match[0]!r}: write {instead}")
    return places


def is_quoted(line: str, match: re.Match[str]) -> bool:
    """Whether a phrase is in typographic quotation marks, which mark what another program says."""
    return line.rfind("“", 0, match.start()) > line.rfind("”", 0, match.start()) and "”" in line[match.end() :]


def is_participle(name: str) -> bool:
    """Whether a function is named by a participle: ``moved_axes``, ``found``, ``_gone_back``."""
    word = name.lstrip("_").partition("_")[0].lower()
    return word in IRREGULAR or (len(word) > 3 and word.endswith("ed") and word not in VERBS_IN_ED)


def find_participles(pages: Iterable[Path], root: Path) -> list[str]:
    """Return the places of functions named by a participle; properties are values and may be named so."""
    places = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if not any(map(is_participle, re.findall(r"\bdef\s+(\w+)", text))):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_participle(node.name):
                decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
                if not decorators & {"property", "cached_property"}:
                    places.append(f"{page.relative_to(root)}:{node.lineno}: {node.name}")
    return places


def test_no_banned_phrase() -> None:
    places = find_phrases(list_pages(ROOT), ROOT)
    assert not places, f"{len(places)} places\n" + "\n".join(places)


def test_functions_are_named_by_verbs() -> None:
    places = find_participles(sorted((ROOT / "graphshare").rglob("*.py")), ROOT)
    assert len(places) <= MAX_PARTICIPLES, f"{len(places)} places\n" + "\n".join(places)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.py"


@pytest.mark.parametrize(
    "line",
    [
        "The file is held against the schema.",
        "Whoever reads it",
        "It mends the file.",
        "a is no map",
        "# as MXNet has it",
        "It bears a name",
    ],
)
def test_a_planted_phrase_is_found(line: str, page: Path) -> None:
    page.write_text(f"sound line\n{line}\n")
    (place,) = find_phrases([page], page.parent)
    assert place.startswith("page.py:2: ")


@pytest.mark.parametrize(
    "line",
    [
        "There is no map.",
        "It is no longer there.",
        "return x is None",
        "MXNet says “nobody”.",
        "a recommendation",
        "no forbearance",
    ],
)
def test_plain_english_and_quotations_pass(line: str, page: Path) -> None:
    page.write_text(line + "\n")
    assert find_phrases([page], page.parent) == []


def test_a_planted_participle_is_found(page: Path) -> None:
    names = ["moved_axes", "_gone_back", "found", "feed_inputs", "read_index", "embed", "infer_shapes"]
    functions = "".join(f"def {name}(): ...\n" for name in names)
    page.write_text(f"{functions}class A:\n    @property\n    def sorted_nodes(self): ...\n")
    assert [place.rpartition(" ")[2] for place in find_participles([page], page.parent)] == names[:3]
