"""Keys of parameter records, pairs and suggestions."""

from __future__ import annotations

from graphshare.text.names import (
    KnownPrefixes,
    TakenNames,
    did_you_mean,
    find_duplicates,
    find_similar,
    join_key,
    split_key,
    split_pair,
    suggest,
)


def test_keys_split_at_the_first_colon() -> None:
    for key, parts in {
        "arg:w": ("arg", "w"),
        "aux:a:b": ("aux", "a:b"),
        "w": ("", "w"),
        "x:w": ("", "x:w"),
        "arg:": ("arg", ""),
    }.items():
        assert split_key(key) == parts
        assert join_key(*parts) == key


def test_a_pair_splits_at_its_first_equals_sign_that_is_not_escaped() -> None:
    assert split_pair("a=b=c") == ("a", "b=c")
    assert split_pair(r"a\=b=c") == ("a=b", "c")
    assert split_pair("a") is None


def test_the_longest_prefix_of_a_name_is_found_among_many() -> None:
    known = KnownPrefixes(["a-", "a-b-", "long-name-"])
    for name, prefix in {
        "a-x": "a-",
        "a-b-x": "a-b-",
        "a-b-": "a-b-",
        "a-b": "a-",
        "long-name": "",
        "x": "",
        "": "",
    }.items():
        assert known.find_longest(name) == prefix
    assert KnownPrefixes([]).find_longest("a") == ""
    many = KnownPrefixes(f"b{i}-" for i in range(30_000))
    assert all(many.find_longest(f"b{i}-conv") == f"b{i}-" for i in range(30_000))


def test_similar_names_are_suggested() -> None:
    known = ["conv1_weight", "data"]
    assert find_similar("conv1_wieght", known) == ["conv1_weight"]
    assert did_you_mean("conv1_wieght", known) == "did you mean 'conv1_weight'?"
    assert did_you_mean("zzz", known) == ""
    assert suggest("conv1_wieght", known, "names") == "did you mean 'conv1_weight'?"
    assert suggest("zzz", known, "names") == "the names are conv1_weight, data"
    assert suggest("zzz", "abcdefg", "names") == "the names are a, b, c, d, e, f and 1 more"
    assert suggest("zzz", [], "names") == ""


def test_a_name_that_contains_the_text_is_suggested_first() -> None:
    known = ["relu_conv", "conv10", "conv1", "Conv_a", "pool", "conv_"]
    assert find_similar("conv", known) == ["conv1", "conv_", "conv10"]
    assert find_similar("CONV1*", known) == ["conv1", "conv10"]
    assert find_similar("nv", ["conv1_weight"]) == ["conv1_weight"]
    assert find_similar("v", ["conv1", "x_v_y"]) == find_similar("x", ["y"]) == []


def test_nothing_is_suggested_twice() -> None:
    assert find_similar("dta", ["data", "data", "dtaa"]) == ["dtaa", "data"]
    names = {"conv1": 1, "conv1_output": 1, "conv2_output": 2, "conv2": 2}
    assert find_similar("conv", names, key=names.__getitem__) == ["conv1", "conv2"]
    assert find_similar("conv1_outptu", names, key=names.__getitem__)[0] == "conv1_output"
    assert did_you_mean("dta", ["data", "data"]) == "did you mean 'data'?"


def test_names_of_one_thing_hide_no_other_thing() -> None:
    outputs = {f"conv{layer}{number}": layer for layer in "123" for number in range(4)}
    assert find_similar("convxx", outputs, key=outputs.__getitem__) == [
        "conv33",
        "conv23",
        "conv13",
    ]


def test_names_that_occur_several_times_are_listed_once() -> None:
    assert find_duplicates(iter(["b", "a", "c", "a", "b", "a"])) == ["b", "a"]
    assert find_duplicates(["a", "b"]) == []


def test_names_that_are_free() -> None:
    taken = TakenNames(["a", "a_1", "b"])
    assert [taken.find_free("a"), taken.find_free("a"), taken.take("a"), taken.take("a")] == [
        "a_2",
        "a_2",
        "a_2",
        "a_3",
    ]
    assert [taken.take("c"), taken.take("c"), taken.find_free("b")] == ["c", "c_1", "b_1"]
    taken.add("b_1")
    assert taken.find_free("b") == "b_2"
    numbered = TakenNames(separator="#")
    assert [numbered.take(name) for name in ("", "", "a", "a")] == ["#1", "#2", "a", "a#1"]
