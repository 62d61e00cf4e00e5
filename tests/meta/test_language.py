"""The package speaks plain English: no banned phrase in code, messages or documentation, and functions are verbs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.surroundings import ROOT
from tests.syntax import parse

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
    r"\b(speaks?|spoken|speaking) (of|for|against|to)\b|\bwhat speaks\b": "is about, names, applies to, a reason against",
    r"\bparameters along\b": "and its parameters",
    r"\bare two (ways|things) to\b": "cannot be combined",
    r"\b(which|that) are others\b": "different",
}
#: Function names that begin with one of these are participles of irregular verbs.
IRREGULAR = set(
    """begun bent bound brought built caught chosen done drawn fed felt found given gone grown heard
    held hidden kept known laid led left lent lost made meant met paid said seen sent shown spelled
    spelt spun stood taken taught thought thrown told understood won worn woven written""".split()
)
#: Words on "ed" that are not participles.
VERBS_IN_ED = set("embed exceed feed need proceed seed shed speed succeed".split())
#: Operators of MXNet whose own names begin with a participle: kernels and gradients have the name of their operator.
OPERATORS = ("generalized_negative_binomial",)
#: Participles and prepositions that say nothing about a value; a variable has the name of the thing that it holds.
VAGUE_VARIABLES = set("found given made of said shown spoken told".split())

# Constructions of translated English in docstrings and comments, each with its limit per 1,000
# words. A limit may only fall.
CONSTRUCTIONS = {
    "that of, those of: repeat the noun, or leave it out": (r"\bth(?:at|ose) of\b", 0.2),
    "what is, what it: use a noun": (r"\bwhat (?:is|are|it|they|no|the|a)\b", 0.2),
    "which, as an afterthought: begin a new sentence": (r", (?:of |with |by |in )?which\b", 0.2),
    "whatever, as it is: name the cases": (
        r"\bwhatever\b|\bas (?:it|they) (?:has|have|is|are)\b",
        0.2,
    ),
}


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
                    places.append(
                        f"{page.relative_to(root)}:{number}: {match[0]!r}: write {instead}"
                    )
    return places


def is_quoted(line: str, match: re.Match[str]) -> bool:
    """Whether a phrase is in typographic quotation marks, which mark what another program says."""
    return (
        line.rfind("“", 0, match.start()) > line.rfind("”", 0, match.start())
        and "”" in line[match.end() :]
    )


def is_participle(name: str) -> bool:
    """Whether a function is named by a participle: ``moved_axes``, ``found``, ``_gone_back``."""
    if name.lstrip("_").startswith(OPERATORS):
        return False
    word = name.lstrip("_").partition("_")[0].lower()
    return word in IRREGULAR or (len(word) > 3 and word.endswith("ed") and word not in VERBS_IN_ED)


def find_participles(pages: Iterable[Path], root: Path) -> list[str]:
    """Return the places of functions named by a participle; properties are values and may be named so."""
    return [
        f"{place}: {name}" for place, name in list_functions(pages, root) if is_participle(name)
    ]


def is_x_of(name: str) -> bool:
    """Whether a function is named by a noun with ``of``, such as ``shape_of``; predicates such as
    ``is_part_of`` may be.
    """
    return name.endswith("_of") and not name.lstrip("_").startswith(("is_", "has_"))


def find_nouns(pages: Iterable[Path], root: Path) -> list[str]:
    """Return the places of functions named ``x_of``."""
    return [f"{place}: {name}" for place, name in list_functions(pages, root) if is_x_of(name)]


def list_functions(pages: Iterable[Path], root: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each function that is not a property."""
    for page in pages:
        for line, name in read_functions(page.read_text(encoding="utf-8")):
            yield f"{page.relative_to(root)}:{line}", name


@cache  # two tests read all modules
def read_functions(text: str) -> tuple[tuple[int, str], ...]:
    """Return the line and the name of each function that is not a property."""
    functions = (
        node
        for node in ast.walk(parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    return tuple(
        (node.lineno, node.name)
        for node in functions
        if not any(map(is_property, node.decorator_list))
    )


def is_property(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).rpartition(".")[2] in {"property", "cached_property"}


def find_vague_variables(pages: Iterable[Path], root: Path) -> list[str]:
    """Return the places where a variable or an argument gets one of the names in ``VAGUE_VARIABLES``."""
    places = []
    for page in pages:
        for node in ast.walk(parse(page.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            elif isinstance(node, ast.arg):
                name = node.arg
            else:
                continue
            if name in VAGUE_VARIABLES:
                places.append(f"{page.relative_to(root)}:{node.lineno}: {name}")
    return places


def list_prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each docstring of a module, and of each comment on a line of its own."""
    text = page.read_text(encoding="utf-8")
    for node in ast.walk(parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield node.body[0].lineno, docstring
    for match in re.finditer(r"^\s*# (.*)", text, re.MULTILINE):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def find_constructions(pages: Iterable[Path], root: Path) -> tuple[dict[str, list[str]], int]:
    """Return the places of each of the ``CONSTRUCTIONS``, and the number of words in all docstrings and comments."""
    places: dict[str, list[str]] = {name: [] for name in CONSTRUCTIONS}
    words = 0
    for page in pages:
        for line, prose in list_prose(page):
            words += len(prose.split())
            for name, (pattern, _) in CONSTRUCTIONS.items():
                for match in re.finditer(pattern, prose, re.IGNORECASE):
                    number = line + prose.count("\n", 0, match.start())
                    places[name].append(f"{page.relative_to(root)}:{number}: {match[0]!r}")
    return places, words


def test_constructions_of_translated_english_are_rare() -> None:
    places, words = find_constructions(sorted((ROOT / "graphshare").rglob("*.py")), ROOT)
    for name, (_, limit) in CONSTRUCTIONS.items():
        rate = 1000 * len(places[name]) / words
        listing = "\n".join(places[name])
        assert rate <= limit, f"{name}: {rate:.2f} per 1,000 words, at most {limit}\n{listing}"


def test_no_banned_phrase() -> None:
    places = find_phrases(list_pages(ROOT), ROOT)
    assert not places, f"{len(places)} places\n" + "\n".join(places)


def test_functions_are_named_by_verbs() -> None:
    places = find_participles(sorted((ROOT / "graphshare").rglob("*.py")), ROOT)
    places += find_nouns(sorted((ROOT / "graphshare").rglob("*.py")), ROOT)
    assert not places, f"{len(places)} places\n" + "\n".join(places)


def test_variables_are_named_by_what_they_hold() -> None:
    places = find_vague_variables(sorted((ROOT / "graphshare").rglob("*.py")), ROOT)
    assert not places, f"{len(places)} places\n" + "\n".join(places)


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
        "a rule speaks of names",
        "Rename nodes, parameters along.",
        "`a` and `b` are two ways to say it",
        "random numbers, which are others there",
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


@pytest.mark.parametrize(
    ("prose", "name"),
    [
        ("The names are those of the file.", "that of"),
        ("Return what is left.", "what is"),
        ("A file, of which there are many.", "which"),
        ("It stays as it is.", "whatever"),
    ],
)
def test_a_planted_construction_is_counted(prose: str, name: str, page: Path) -> None:
    page.write_text(
        f'"""A module."""\n\n\ndef f():\n    """Do it.\n\n    {prose}\n    """\n    # {prose}\n    return "{prose}"\n'
    )
    places, words = find_constructions([page], page.parent)
    (construction,) = (each for each in CONSTRUCTIONS if places[each])
    assert construction.startswith(name)
    assert [place.rpartition(": ")[0] for place in places[construction]] == [
        "page.py:7",
        "page.py:9",
    ]
    assert words == 4 + 2 * len(prose.split())


def test_a_planted_participle_is_found(page: Path) -> None:
    names = [
        "moved_axes",
        "_gone_back",
        "found",
        "feed_inputs",
        "read_index",
        "embed",
        "infer_shapes",
    ]
    functions = "".join(f"def {name}(): ...\n" for name in names)
    page.write_text(f"{functions}class A:\n    @property\n    def sorted_nodes(self): ...\n")
    assert [place.rpartition(" ")[2] for place in find_participles([page], page.parent)] == names[
        :3
    ]


def test_a_planted_noun_is_found(page: Path) -> None:
    page.write_text(
        "def shape_of(): ...\ndef _name_of(): ...\ndef is_part_of(): ...\ndef find(): ...\n"
    )
    assert [place.rpartition(" ")[2] for place in find_nouns([page], page.parent)] == [
        "shape_of",
        "_name_of",
    ]


def test_a_planted_vague_variable_is_found(page: Path) -> None:
    page.write_text(
        "def f(given, x):\n    found = [y for y in x]\n    for made in found:\n        pass\n    print(told=1)\n"
    )
    assert [place.rpartition(" ")[2] for place in find_vague_variables([page], page.parent)] == [
        "given",
        "found",
        "made",
    ]
