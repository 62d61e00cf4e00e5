"""Scope overrides held against Caffe2's reference table, its own test cases and the surprises of its algorithm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.errors import RefusedError
from graphshare.rewrite.rules import scopes
from graphshare.rewrite.rules.scopes import (
    Overrides,
    join_name,
    make_overrides,
    split_name,
    split_scope,
)


def table(*blocks: tuple[str, dict[str, str]]) -> Overrides:
    """Blocks that begin at a scope each, as ``within:`` of a rules file gives them."""
    rules = []
    for begin, pairs in blocks:
        scope = split_scope(begin)
        rules += make_overrides(pairs, current=scope, within=scope)
    return Overrides(rules)


def names(overrides: Overrides, *full: str) -> list[str]:
    return [overrides.parameter_name(*split_name(name)) for name in full]


DOCUMENTED = (("", {"scope_b": "scope_a"}), ("scope_b", {"shared_child": ""}))
GLOBAL = (
    ("global_scope", {"model_b": "model_a"}),
    ("global_scope/model_b", {"shared_scope": ""}),
    ("global_scope/model_c", {"shared_scope": ""}),
)
BREW = (
    ("some_global_scope", {"model_b": "model_a"}),
    ("some_global_scope/model_b", {"shared_1": "", "shared_2": ""}),
    ("some_global_scope/model_a", {"shared_1": "", "shared_2": ""}),
)
CASES = [
    ("the documented table", DOCUMENTED,
     ("scope_a/w scope_a/w  scope_b/w scope_a/w  scope_c/w scope_c/w  scope_b/shared_child/w scope_a/w "
      "scope_b/unshared_child/w scope_a/unshared_child/w")),
    ("no sharing", (), "w w  scope/w scope/w  scope/scope_2/w scope/scope_2/w"),
    ("nested blocks", GLOBAL,
     ("global_scope/w global_scope/w  global_scope/model_b/w global_scope/model_a/w "
      "global_scope/model_b/shared_scope/w global_scope/model_a/w  global_scope/model_c/w global_scope/model_c/w "
      "global_scope/model_c/shared_scope/w global_scope/model_c/w")),
    ("subscopes", (("global_scope", {"b": "a"}),),
     ("global_scope/w global_scope/w  global_scope/a/w global_scope/a/w  global_scope/b/w global_scope/a/w "
      "global_scope/c/w global_scope/c/w  b/w b/w")),
    ("three deep", (("", {"a": "b"}), ("a", {"c": "d"}), ("a/c", {"e": "f"})), "a/c/e/w b/d/f/w  a/c/w b/d/w  a/w b/w"),
    ("brew", BREW,
     ("some_global_scope/model_b/shared_1/fc_w some_global_scope/model_a/fc_w "
      "some_global_scope/model_a/shared_2/fc_w some_global_scope/model_a/fc_w "
      "some_global_scope/model_b/unshared/w some_global_scope/model_a/unshared/w")),
    ("layers of two scopes", (("global_scope", {"scope_1": "scope_0"}),),
     "global_scope/scope_0/fc/w global_scope/scope_0/fc/w  global_scope/scope_1/fc/w global_scope/scope_0/fc/w"),
    ("a layer's name is a scope", (("global_scope", {"fc_auto_0": "fc"}),), "global_scope/fc_auto_0/w global_scope/fc/w"),
    ("a new layer", (("global_scope", {"new_fc": "shared_fc"}),), "global_scope/new_fc/w global_scope/shared_fc/w"),
    ("whole components, not text", (("", {"fc": "fc_auto_0"}),), "fc/w fc_auto_0/w  fc_auto_0/w fc_auto_0/w  fc2/w fc2/w"),
    ("up into the parent, the tail not folded again", (("", {"a/b": "a"}),), "a/b/w a/w  a/b/b/w a/b/w  a/w a/w"),
    ("the deepest key", (("", {"a": "x", "a/b": "y"}),), "a/b/c/w y/c/w  a/c/w x/c/w"),
    ("the tail is not resolved again", (("", {"a": "b", "b/c": "d"}),), "a/c/w b/c/w  b/c/w d/w"),
    ("the target is", (("", {"a": "b/c", "b/c": "d"}),), "a/k/w d/k/w"),
    ("re-rooting", (("", {"a": ""}),), "a/w w  a/b/w b/w"),
    ("current scope on both sides", (("g", {"a": "b"}),), "g/a/w g/b/w  a/w a/w"),
    ("one separator at the end is none", (("", {"a/": "b/"}),), "a/w b/w"),
    ("two are an empty component", (("", {"a//": "b"}),), "a/w a/w  a//w b/w"),
    ("so is one at the start", (("", {"/a": "b"}),), "a/w a/w  /a/w b/w"),
    ("the later rule for a scope", (("", {"a": "b"}), ("", {"a": "c"})), "a/w c/w"),
    ("an inner block's, inside only", (("", {"a/b": "x", "h": "a/b"}), ("a", {"b": "c"})), "a/b/w a/c/w  h/w x/w"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("blocks", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_reference_cases(blocks: tuple[tuple[str, dict[str, str]], ...], expected: str) -> None:
    words = expected.split()
    assert names(table(*blocks), *words[::2]) == words[1::2]


@pytest.mark.parametrize(
    ("blocks", "path"),
    [
        ((("", {"a": "b", "b": "a"}),), "a -> b -> a"),
        ((("", {"a": "b"}), ("", {"b": "a"})), "a -> b -> a"),
        ((("", {"a": "b/c", "b": "a"}),), "a -> b -> a"),
        ((("", {"a": "b"}), ("", {"b": "a/x"})), "a -> b -> a"),
        ((("", {"x": "a", "a": "b", "b": "c", "c": "a"}),), "a -> b -> c -> a"),
        ((("g", {"a": "b", "b": "a"}),), "g/a -> g/b -> g/a"),
    ],
)
def test_cycles_are_shown_as_a_path(
    blocks: tuple[tuple[str, dict[str, str]], ...], path: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        table(*blocks)
    assert [fault.message for fault in caught.value.faults] == [
        f"scope overrides form a cycle: {path}"
    ]


def test_every_cycle_is_named_once() -> None:
    pairs = {"a": "b", "b": "a", "c": "d", "d": "c", "e": "a", "f": "g"}
    with pytest.raises(RefusedError) as caught:
        table(("", pairs))
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    "pair", [("a", "a/b"), ("a", "a"), ("a", "a/"), ("a/", "a"), ("", "b"), ("/", "b")]
)
def test_rules_that_are_none(pair: tuple[str, str]) -> None:
    with pytest.raises(RefusedError):
        make_overrides([pair])


def test_steps_explain_a_resolution() -> None:
    overrides, scope = table(*DOCUMENTED), ("scope_b", "shared_child")
    assert overrides.resolve_scope(scope) == ("scope_a",)
    assert [(step.before, step.after, step.tail) for step in overrides.chain(scope)] == [
        (("scope_b", "shared_child"), ("scope_b",), ()),
        (("scope_b",), ("scope_a",), ()),
    ]
    assert list(overrides.chain(("scope_c",))) == []


def test_a_chain_of_ten_thousand_rules_and_a_scope_as_deep() -> None:
    chain = Overrides(make_overrides([(f"s{i}", f"s{i + 1}") for i in range(10_000)]))
    assert chain.resolve_scope(("s0", "x")) == ("s10000", "x")
    assert len(list(chain.chain(("s0",)))) == 10_000
    deep = tuple("d" * 20_000)
    assert chain.resolve_scope(deep) == deep
    with pytest.raises(RefusedError, match="more names than can be held"):
        Overrides(make_overrides([(f"s{i}", f"s{i + 1}/{'x' * 999}") for i in range(10_000)]))


def test_a_cycle_of_ten_thousand_rules_is_found_at_once() -> None:
    pairs = [(f"s{i}", f"s{(i + 1) % 10_000}") for i in range(10_000)] + [
        (f"t{i}", "s5") for i in range(10_000)
    ]
    with pytest.raises(RefusedError, match=r"s0 -> s1 -> .*more\) -> s0") as caught:
        Overrides(make_overrides(pairs))
    assert len(caught.value.faults) == 1


SCOPES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)


def caffe2(
    scope: tuple[str, ...], overrides: dict[tuple[str, ...], tuple[str, ...]], depth: int = 0
) -> tuple[str, ...]:
    """The recursion that the rules are to agree with, told in its plainest form."""
    if depth > 50:
        raise RecursionError
    keys = [scope[:i] for i in range(1, len(scope) + 1) if scope[:i] in overrides]
    if not keys or overrides[keys[-1]] == scope:
        return scope
    return caffe2(overrides[keys[-1]], overrides, depth + 1) + scope[len(keys[-1]) :]


def recurses_for_ever(
    scope: tuple[str, ...], overrides: dict[tuple[str, ...], tuple[str, ...]]
) -> bool:
    try:
        caffe2(scope, overrides)
    except RecursionError:
        return True
    return False


@given(st.dictionaries(SCOPES, st.one_of(st.just(()), SCOPES), max_size=5), SCOPES)
def test_resolution_agrees_with_the_plain_recursion(
    pairs: dict[tuple[str, ...], tuple[str, ...]], scope: tuple[str, ...]
) -> None:
    pairs = {key: target for key, target in pairs.items() if target[: len(key)] != key}
    texts = {"/".join(key): "/".join(target) for key, target in pairs.items()}
    try:
        overrides = Overrides(make_overrides(texts))
    except RefusedError:
        assert any(recurses_for_ever(key, pairs) for key in pairs)
        return
    assert overrides.resolve_scope(scope) == caffe2(scope, pairs)
    turned = Overrides(make_overrides(dict(reversed(texts.items()))))
    assert turned.resolve_scope(scope) == overrides.resolve_scope(scope), (
        "the order of rules for different scopes is nothing"
    )


@given(st.text("ab/_", max_size=6), st.sampled_from(["/", "_", "__"]))
def test_names_split_and_join(name: str, separator: str) -> None:
    assert join_name(*split_name(name, separator), separator) == name


def test_separators() -> None:
    overrides = Overrides(make_overrides({"stage_1": "stage_2"}, separator="_"), separator="_")
    assert (
        overrides.parameter_name(*split_name("stage_1_conv_weight", "_")) == "stage_2_conv_weight"
    )
    assert (
        overrides.parameter_name(*split_name("stage_10_conv_weight", "_")) == "stage_10_conv_weight"
    )
    assert scopes.split_scope("") == ()
