"""Rules of every kind on names, rules files with the place of every fault, options that become rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from graphshare.api.load_rules import load_rules, read_rules
from graphshare.api.rules import check_rules
from graphshare.errors import GraphshareError, InputError, RefusedError, UsageError
from graphshare.files import toml
from graphshare.files.schema import find_violations as schema_faults
from graphshare.rewrite.rules import load, resolve
from graphshare.rewrite.rules.model import Only, Rule, Ruleset, matches_of_options, rule_from_option
from graphshare.rewrite.rules.resolve import Resolver, find_shadowed
from tests.effort import ends, grows_with

PARAMETER: frozenset[Only] = frozenset(("variables", "parameters"))
OPERATOR: frozenset[Only] = frozenset(("ops",))


def ruleset(*rules: dict[str, Any], **more: Any) -> Ruleset:
    return read_rules(json.dumps({"version": 1, "rules": rules, **more}).encode(), where="r.json")


def final(found: Ruleset, name: str, kinds: frozenset[Only] = PARAMETER) -> str:
    resolver = Resolver(found)
    shared = resolver.resolve_parameter(name)[0] if kinds is PARAMETER else name
    return resolver.name_node(shared, kinds).name


TABLE: list[tuple[str, list[dict[str, Any]], dict[str, str]]] = [
    ("a prefix", [{"prefix": "p-"}], {"w": "p-w"}),
    ("a prefix stripped where it is", [{"strip": "p-"}], {"p-w": "w", "w": "w"}),
    ("stripped, then put", [{"prefix": "q-"}, {"strip": "p-"}], {"p-w": "q-w"}),
    ("a swap", [{"map": {"a": "b", "b": "a"}}], {"a": "b", "b": "a"}),
    ("names do not chain", [{"map": {"a": "b"}}, {"map": {"b": "c"}}], {"a": "b", "b": "c"}),
    ("the last that speaks", [{"match": "a*", "to": "x"}, {"map": {"ab": "y"}}], {"ab": "y", "ac": "x"}),
    ("a pattern after a name", [{"map": {"ab": "y"}}, {"match": "a*", "to": "x*"}], {"ab": "xb"}),
    ("aliases chain", [{"alias": "a", "to": "b"}, {"alias": "b", "to": "c"}], {"a": "c", "b": "c"}),
    ("an alias, then its scope", [{"alias": "x", "to": "b/w"}, {"scope": "b", "to": "a"}], {"x": "a/w", "b/w": "a/w"}),
    ("a scope, then an alias", [{"scope": "b", "to": "a"}, {"alias": "a/w", "to": "c"}], {"b/w": "c", "a/w": "c"}),
    ("a pattern that matches its own result", [{"alias": "*_weight", "to": "one_weight"}],
     {"a_weight": "one_weight", "one_weight": "one_weight"}),
    ("shared, then named", [{"scope": "b", "to": "a"}, {"map": {"a/w": "W"}}], {"b/w": "W", "a/w": "W"}),
    ("blocks see what follows",
     [{"within": "g", "rules": [{"map": {"a": "b"}}, {"prefix": "p-"}, {"alias": "q*", "to": "r*"}]}],
     {"g/a": "g/p-b", "a": "a", "g/c/d": "g/p-c/d", "g/qx": "g/p-rx", "gg/a": "gg/a"}),
    ("nested blocks", [{"within": "g", "rules": [{"within": "h", "rules": [{"map": {"a": "b"}}]}]}], {"g/h/a": "g/h/b"}),
    ("limited to operators", [{"prefix": "p-", "only": ["ops"]}], {"w": "w"}),
    ("limited to parameters", [{"prefix": "p-", "only": ["parameters"]}], {"w": "p-w"}),
    ("TensorFlow's scopes", [{"name_scope": "foo"}, {"variable_scope": "goo"}, {"name_scope": "hoo"}], {"w": "goo/w"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_rules_on_parameters(rules: list[dict[str, Any]], expected: dict[str, str]) -> None:
    found = ruleset(*rules)
    assert {name: final(found, name) for name in expected} == expected
    for name, end in expected.items():
        resolver = Resolver(found)
        steps = resolver.steps(name)
        assert steps.name == resolver.resolve_parameter(name)[0]
        assert [step.after for step in steps.steps][-1:] in ([], [steps.name])
        assert resolver.name_node(steps.name, PARAMETER).name == end


def test_rules_on_operators() -> None:
    scopes = ruleset({"name_scope": "foo"}, {"variable_scope": "goo"}, {"name_scope": "hoo"})
    assert final(scopes, "mul", OPERATOR) == "foo/goo/hoo/mul"
    assert (
        final(ruleset({"scope": "b", "to": "a"}, {"alias": "*", "to": "x"}), "b/conv", OPERATOR)
        == "b/conv"
    )


def test_other_separators() -> None:
    found = ruleset(
        {"scope": "right", "to": "left"},
        {"within": "left", "rules": [{"map": {"x": "y"}}]},
        separator="_",
    )
    assert final(found, "right_fc_weight") == "left_fc_weight"
    assert final(found, "righteous_fc_weight") == "righteous_fc_weight"
    assert final(found, "left_x") == "left_y"


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        ([{"alias": "a", "to": "b"}, {"alias": "b", "to": "a"}], "a -> b -> a"),
        (
            [{"alias": "a", "to": "b/w"}, {"scope": "b", "to": "c"}, {"alias": "c/w", "to": "a"}],
            "a -> b/w -> c/w -> a",
        ),
        ([{"alias": "?", "to": "x"}, {"alias": "x", "to": "y"}], "x -> y -> x"),
    ],
)
def test_cycles_of_aliases(rules: list[dict[str, Any]], path: str) -> None:
    with pytest.raises(RefusedError, match=f"form a cycle: {path}"):
        Resolver(ruleset(*rules)).resolve_parameter(path[0])


def test_aliases_that_grow() -> None:
    with pytest.raises(RefusedError, match="never end"):
        Resolver(ruleset({"alias": "*", "to": "x*"})).resolve_parameter("a")
    assert Resolver(ruleset({"alias": "*", "to": "x*"}), {"a"}).resolve_parameter("a")[0] == "xa"


def test_shadowed_rules() -> None:
    found = ruleset({"scope": "a", "to": "b"}, {"scope": "a/", "to": "c"}, {"prefix": "x"}, {"prefix": "y"},
                    {"map": {"n": "o"}}, {"match": "=n", "to": "p"}, {"alias": "q*", "to": "r"}, {"alias": "q*", "to": "s"},
                    {"prefix": "z", "only": ["ops"]}, {"strip": "u"}, {"strip": "v"})  # fmt: skip
    assert [(str(rule), str(later)) for rule, later in find_shadowed(found)] == [
        ("scope 'a' -> 'b'", "scope 'a/' -> 'c'"),
        ("prefix 'x'", "prefix 'y'"),
        ("map 'n' -> 'o'", "match '=n' -> 'p'"),
        ("alias 'q*' -> 'r'", "alias 'q*' -> 's'"),
    ]


@pytest.mark.parametrize(
    ("kind", "given", "left", "right"),
    [
        ("alias", "a=b", "a", "b"), ("alias", r"a\=b=c", "a=b", "c"), ("alias", "a=b=c", "a", "b=c"),
        ("alias", "=a*=b", "=a*", "b"),
        ("scope", "b=", "b", ""), ("scope", "b/c=a", "b/c", "a"),
    ],
)  # fmt: skip
def test_options_become_rules(kind: Any, given: str, left: str, right: str) -> None:
    rule = rule_from_option(kind, "--x", given)
    assert (rule.text, rule.to, rule.option) == (left, right, True)


@pytest.mark.parametrize("given", ["", "a", "=", "=b", "a=", r"a\=b"])
def test_options_that_are_no_rules(given: str) -> None:
    with pytest.raises(UsageError):
        rule_from_option("alias", "--alias", given)
    with pytest.raises(UsageError):
        matches_of_options(["a"], [])


FAULTS: list[tuple[str, str, str]] = [
    ("[]", "$", "not an object"),
    ('{"rules": []}', "$.version", "must be 1"),
    ('{"version": true, "rules": []}', "$.version", "must be 1"),
    ('{"version": 1}', "$.rules", "not a list"),
    ('{"version": 1, "rules": [], "x": 1}', "$.x", "not a key"),
    ('{"version": 1, "rules": [3]}', "$.rules[0]", "not an object"),
    ('{"version": 1, "rules": [{}]}', "$.rules[0]", "none of the keys"),
    ('{"version": 1, "rules": [{"prefix": "a", "strip": "b"}]}', "$.rules[0]", "2 of the keys"),
    ('{"version": 1, "rules": [{"prefix": "a", "to": "b"}]}', "$.rules[0].to", "not a key of a rule 'prefix'"),
    ('{"version": 1, "rules": [{"prefix": ""}]}', "$.rules[0].prefix", "is empty"),
    ('{"version": 1, "rules": [{"prefix": "a\\u0000"}]}', "$.rules[0].prefix", "contains a NUL character"),
    ('{"version": 1, "rules": [{"match": "a"}]}', "$.rules[0].to", "missing"),
    ('{"version": 1, "rules": [{"match": "a*", "to": "**"}]}', "$.rules[0]", "refers to more"),
    ('{"version": 1, "rules": [{"alias": "a", "to": "a"}]}', "$.rules[0]", "alias of itself"),
    ('{"version": 1, "rules": [{"scope": "a", "to": "a/b"}]}', "$.rules[0]", "lies inside"),
    ('{"version": 1, "rules": [{"scope": "a", "to": "a"}]}', "$.rules[0]", "stand for itself"),
    ('{"version": 1, "rules": [{"scope": "", "to": "a"}]}', "$.rules[0].scope", "is empty"),
    ('{"version": 1, "rules": [{"within": "a", "rules": [{"scope": 1, "to": ""}]}]}', "$.rules[0].rules[0].scope", "is 1,"),
    ('{"version": 1, "rules": [{"map": {"a": 1}}]}', '$.rules[0].map["a"]', "not a name"),
    ('{"version": 1, "rules": [{"map": {"a": "b", "a": "c"}}]}', "$.rules[0].map.a", "given twice"),
    ('{"version": 1, "rules": [{"prefix": "a", "only": ["all"]}]}', "$.rules[0].only", "all"),
    ('{"version": 1, "rules": [{"alias": "a", "to": "b", "reuse": "often"}]}', "$.rules[0].reuse", "often"),
    ('{"version": 1, "rules": [', "line 1, column 26", "not JSON"),
    ('{"version": NaN, "rules": []}', "", "not JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "words"), FAULTS, ids=[words for _, _, words in FAULTS])
def test_faults_have_their_place(text: str, path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_rules(text.encode(), where="r.json")
    fault = caught.value.faults[0]
    assert (fault.where, fault.path) == ("r.json", path)
    assert words in fault.message + fault.hint


def test_all_faults_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_rules(
            b'{"version": 2, "rules": [{}, {"prefix": 1}, {"strip": []}], "y": 0}', where="r.json"
        )
    assert [fault.path for fault in caught.value.faults] == [
        "$.y", "$.version", "$.rules[0]", "$.rules[1].prefix", "$.rules[2].strip"]  # fmt: skip
    with pytest.raises(InputError) as caught:
        read_rules(json.dumps({"version": 1, "rules": [{}] * 5000}).encode(), where="r.json")
    assert len(caught.value.faults) == 101


# What only reading finds: keys given twice, targets inside their scopes, templates that ask for too
# much, and JSON itself.
BEYOND_THE_SCHEMA = (
    "given twice",
    "lies inside",
    "stand for itself",
    "refers to more",
    "alias of itself",
    "not JSON",
    "must be 1",
)


@pytest.mark.parametrize(
    "text", [text for text, _, words in FAULTS if words not in BEYOND_THE_SCHEMA]
)
def test_the_schema_refuses_the_same(text: str) -> None:
    assert schema_faults(json.loads(text), "rules")


@pytest.mark.parametrize("rules", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_schema_takes_what_is_read(rules: list[dict[str, Any]]) -> None:
    assert (
        schema_faults({"version": 1, "rules": rules, "separator": "/", "reuse": "auto"}, "rules")
        == []
    )


TOML = """
version = 1
reuse = "require"
[[rules]]
scope = "scope_b"
to = "scope_a"
[[rules]]
within = "scope_b"
rules = [{scope = "shared_child", to = ""}]
"""


def test_toml_says_the_same_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(TOML)
    if sys.version_info >= (3, 11):
        found = load_rules(str(path))
        assert found.reuse == "require"
        assert final(found, "scope_b/shared_child/w") == "scope_a/w"
        path.write_text("version = 1\nrules = [\n")
        with pytest.raises(InputError, match="not TOML"):
            load_rules(str(path))

    def no_reader(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(toml, "import_module", no_reader)
    with pytest.raises(InputError, match="cannot read") as caught:
        load_rules(str(path))
    assert "3.11" in caught.value.faults[0].hint


@pytest.mark.skipif(
    toml.toml_reader() is None, reason="this Python reads no TOML; pip install tomli"
)
def test_toml_of_rules_has_the_bounds_of_all_toml() -> None:
    """A dotted key of 20,000 parts would take 1.6 GB."""
    with pytest.raises(InputError, match="a dotted key of more than 64 parts"):
        read_rules(b".".join([b"a"] * 20_000) + b" = 1", where="r.toml")
    with pytest.raises(InputError, match="nested too deeply"):
        read_rules(b"a = " + b"[" * 200_000, where="r.TOML")
    with pytest.raises(InputError, match="is larger than 2 MiB"):
        read_rules(b" " * (toml.MAX_BYTES + 1), where="r.toml")


def test_work_grows_with_the_rules_of_every_kind() -> None:
    def resolved(count: int) -> None:
        rules: list[dict[str, Any]] = [{"alias": f"a{i}", "to": f"a{i + 1}"} for i in range(count)]
        rules += [{"scope": f"s{i}", "to": f"s{i + 1}"} for i in range(count)]
        rules += [{"map": {f"a{i}": f"b{i}" for i in range(count)}}]
        rules += [{"within": f"s{i}", "rules": [{"scope": "x", "to": "y"}]} for i in range(count)]
        found = ruleset(*rules)
        names = {f"a{i}" for i in range(count + 1)} | {f"s{i}/w" for i in range(count + 1)}
        resolver = Resolver(found, names)
        assert {resolver.resolve_parameter(name)[0] for name in names} == {
            f"a{count}",
            f"s{count}/w",
        }

    assert grows_with(resolved, 500) < 4.5


@ends()
def test_too_many_rules_patterns_and_levels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"more than 100,000 rules"):
        ruleset({"map": {f"a{i}": "b" for i in range(100_001)}})
    deep: list[dict[str, Any]] = [{"prefix": "p"}]
    for _ in range(150):
        deep = [{"within": "d", "rules": deep}]
    with pytest.raises(InputError, match="nested deeper"):
        ruleset(*deep)
    with pytest.raises(InputError, match="nested too deeply"):
        read_rules(b'{"version":1,"rules":' + b"[" * 200_000, where="r.json")
    with pytest.raises(InputError, match="larger than"):
        read_rules(b" " * (load.MAX_BYTES + 1), where="r.json")
    with pytest.raises(InputError, match="not UTF-8"):
        read_rules(b"\xff", where="r.json")
    monkeypatch.setattr(resolve, "MAX_TRIALS", 1_000_000)
    for text in ("*x{}*", "x{}*", "*[y]{}"):
        resolver = Resolver(Ruleset(tuple(Rule("match", text.format(i), "y") for i in range(5000))))
        with pytest.raises(GraphshareError, match="too many patterns"):
            [resolver.name_node(f"n{i}", PARAMETER) for i in range(100_000)]
    with pytest.raises(RefusedError, match="characters"):
        Resolver(ruleset({"prefix": "p" * 5000})).name_node("w", PARAMETER)


def test_a_file_of_rules_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    for path, reason in (
        (str(tmp_path / "none.json"), "No such file or directory"),
        (f"{tmp_path}/a\0b", "embedded null byte"),
    ):
        with pytest.raises(InputError) as caught:
            load.read_rule_file(path)
        (fault,) = caught.value.faults
        assert (fault.message, fault.where) == (f"cannot be read: {reason}", path)
        assert fault.hint == "name a file of rules, JSON or TOML"


def test_rules_that_are_wrong_are_counted_as_none(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text("[")
    report = check_rules(tmp_path / "rules.json")
    assert (report.rules, len(report.errors), report.warnings) == (0, 1, [])
