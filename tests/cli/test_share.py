"""``share``, ``rules`` and ``rename`` by rule as a user runs them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from graphshare.files.schema import find_violations
from tests import params_bytes
from tests.processes import (
    ROOT,
    done,
    files_in,
    graphshare,
    keys_of,
    refused,
    write_json,
    write_params,
)
from tests.surroundings import size_of_day
from tests.symbols import (
    Document,
    document,
    old_batch_norm,
    operator,
    siamese,
    two_layers,
    variable,
)


def twin_layers(sep: str = "/", **right: dict[str, Any]) -> Document:
    """Two fully connected layers under ``left`` and ``right``; attributes of the right one's nodes
    by their last name.
    """
    nodes: list[dict[str, Any]] = []
    for scope in ("left", "right"):
        more = right if scope == "right" else {}
        base = len(nodes)
        nodes += [
            variable(f"{scope}{sep}data"),
            variable(
                f"{scope}{sep}fc_weight", **({"attrs": more["weight"]} if "weight" in more else {})
            ),
            variable(f"{scope}{sep}fc_bias"),
            operator(
                "FullyConnected",
                f"{scope}{sep}fc",
                [base, base + 1, base + 2],
                attrs=more.get("fc", {"num_hidden": "4"}),
            ),
        ]
    return document(nodes, [3, 7])


KEYS = [f"arg:{scope}/fc_{part}" for scope in ("left", "right") for part in ("weight", "bias")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_json(tmp_path / "net-symbol.json", twin_layers())
    write_params(tmp_path / "net-0000.params", KEYS)
    return tmp_path


def nodes_of(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["nodes"]
    return found


def write_rules(folder: Path, *rules: dict[str, Any], **more: Any) -> str:
    write_json(folder / "rules.json", {"version": 1, "rules": list(rules), **more})
    return "rules.json"


def test_an_override_ties_and_keeps_one_record(folder: Path) -> None:
    said = done(
        graphshare("share", "net", "--override", "right=left", "-o", "one", cwd=folder)
    ).stderr.decode()
    assert "tied: 2\n  right/fc_weight -> left/fc_weight  (--override right=left)" in said
    assert "different values" in said
    nodes = nodes_of(folder / "one-symbol.json")
    assert [node["name"] for node in nodes] == [
        "left/data", "left/fc_weight", "left/fc_bias", "left/fc", "right/data", "right/fc"]  # fmt: skip
    assert nodes[5]["inputs"] == [[4, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert keys_of(folder / "one-0000.params") == KEYS[:2]
    first = params_bytes.pattern(params_bytes.count_bytes((2,), "float32"), 0)
    assert first in (folder / "one-0000.params").read_bytes()


def test_the_kept_parameter_comes_before_every_consumer(folder: Path) -> None:
    done(graphshare("share", "net", "--override", "left=right", "-o", "one", cwd=folder))
    nodes = nodes_of(folder / "one-symbol.json")
    assert [node["name"] for node in nodes][:4] == [
        "left/data",
        "right/fc_weight",
        "right/fc_bias",
        "left/fc",
    ]
    for number, node in enumerate(nodes):
        assert all(entry[0] < number for entry in node["inputs"])
    assert keys_of(folder / "one-0000.params") == KEYS[2:]


def test_a_target_that_is_not_there(folder: Path) -> None:
    done(graphshare("share", "net", "--override", "right=middle", "-o", "one", cwd=folder))
    assert keys_of(folder / "one-0000.params") == [
        *KEYS[:2],
        "arg:middle/fc_weight",
        "arg:middle/fc_bias",
    ]
    said = refused(
        graphshare("share", "net", "--override", "right=middle", "--reuse", "require", "-o", "two", cwd=folder),
        "'middle/fc_weight', which does not exist", "'middle/fc_bias', which does not exist", "--reuse auto",
    )  # fmt: skip
    assert said.count("error:") == 2
    refused(
        graphshare(
            "share", "net", "--override", "right=left", "--reuse", "forbid", "-o", "two", cwd=folder
        ),
        "already exists",
    )
    assert not [name for name in files_in(folder) if name.startswith("two")]


def test_a_policy_of_one_rule(folder: Path) -> None:
    rules = write_rules(
        folder,
        {"scope": "right", "to": "left", "reuse": "forbid"},
        {"alias": "right/fc_bias", "to": "left/fc_bias"},
    )
    said = refused(
        graphshare("share", "net", "--rules", rules, "-o", "one", cwd=folder),
        "rules.json: $.rules[0]",
        "already exists",
    )
    assert said.count("error:") == 1


def test_forgotten_partners_are_named(folder: Path) -> None:
    said = done(
        graphshare(
            "share", "net", "--alias", "right/*_weight=left/*_weight", "-o", "one", cwd=folder
        )
    ).stderr.decode()
    assert (
        "'right/fc_weight' is tied to 'left/fc_weight', but 'right/fc_bias' and 'left/fc_bias' beside them are not"
        in said
    )
    refused(
        graphshare(
            "share",
            "net",
            "--alias",
            "right/fc_weight=left/fc_weight",
            "--strict",
            "-o",
            "two",
            cwd=folder,
        )
    )
    assert (
        "beside"
        not in done(
            graphshare("share", "net", "--override", "right=left", "-o", "o", cwd=folder)
        ).stderr.decode()
    )


def test_forgotten_statistics(tmp_path: Path) -> None:
    net = two_layers()
    write_json(tmp_path / "net.json", net)
    done(graphshare("duplicate", "net.json", "--prefix", "b/", "-o", "two.json", cwd=tmp_path))
    said = done(
        graphshare(
            "share", "two.json", "--alias", "b/bn_gamma=bn_gamma", "-o", "one.json", cwd=tmp_path
        )
    ).stderr.decode()
    assert "'b/bn_moving_mean' and 'bn_moving_mean' beside them are not" in said
    done(graphshare("share", "two.json", "--alias", "b/*=*", "-o", "one.json", cwd=tmp_path))
    nodes = nodes_of(tmp_path / "one.json")
    moving = next(i for i, node in enumerate(nodes) if node["name"] == "bn_moving_mean")
    entries = [e for node in nodes for e in node["inputs"] if e[0] == moving]
    assert [e[2] for e in entries] == [1, 2], "the second mutation of one state counts on"


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"fc": {"num_hidden": "5"}}, ["different shapes", "num_hidden 5 and 4"]),
        ({"weight": {"__dtype__": "2", "__shape__": "(4, 3)"}}, []),
    ],
)
def test_what_the_graph_says_of_shapes(
    tmp_path: Path, attrs: dict[str, Any], words: list[str]
) -> None:
    write_json(tmp_path / "net.json", twin_layers(**attrs))
    run = graphshare(
        "share", "net.json", "--override", "right=left", "-o", "one.json", cwd=tmp_path
    )
    if words:
        refused(run, "'right/fc_weight' and 'left/fc_weight' cannot be one", *words)
        assert files_in(tmp_path) == ["net.json"]
    else:
        done(run)


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [((3,), "float32", "shapes 3 and 2"), ((2,), "float64", "types float64 and float32")],
)
def test_other_shapes_and_types_are_refused(
    folder: Path, shape: tuple[int, ...], dtype: str, words: str
) -> None:
    kinds = [((2,), "float32"), ((2,), "float32"), (shape, dtype), ((2,), "float32")]
    records = [
        params_bytes.dense(s, d, params_bytes.pattern(params_bytes.count_bytes(s, d), i))
        for i, (s, d) in enumerate(kinds)
    ]
    (folder / "net-0000.params").write_bytes(params_bytes.container(records, KEYS))
    before = files_in(folder)
    refused(graphshare("share", "net", "--override", "right=left", "-o", "one", cwd=folder),
            "'right/fc_weight' and 'left/fc_weight' cannot be one", words)  # fmt: skip
    assert files_in(folder) == before


def test_hints_that_conflict_are_named(tmp_path: Path) -> None:
    write_json(tmp_path / "net.json", twin_layers(weight={"__lr_mult__": "2", "__init__": "zeros"}))
    said = done(
        graphshare("share", "net.json", "--override", "right=left", "-o", "o.json", cwd=tmp_path)
    ).stderr.decode()
    assert "have __lr_mult__ 2 and none" in said
    assert "have __init__ zeros and none" in said
    assert "__wd_mult__" not in said


def test_what_cannot_be_tied(folder: Path) -> None:
    for alias, words in (
        ("left/data=right/data", "is not a parameter"),
        ("right/fc_weight=left/fc", "is not a parameter (it is a FullyConnected)"),
        ("rihgt/fc_weight=left/fc_weight", "did you mean 'right/fc_weight'"),
        ("left/fc_weight=left/fc_weight", "alias of itself"),
        ("nonsense", "no '='"),
    ):
        refused(graphshare("share", "net", "--alias", alias, "-o", "one", cwd=folder), words)
    refused(graphshare("share", "net", "--override", "right=left", "--override", "left=right", "-o", "one", cwd=folder),
            "form a cycle: right -> left -> right")  # fmt: skip
    refused(
        graphshare("share", "net", "--override", "left=left/x", "-o", "one", cwd=folder),
        "lies inside",
    )
    refused(graphshare("share", "net", "-o", "one", cwd=folder), "no rule or option for sharing")
    refused(
        graphshare("share", "net", "--detect", "--untie", "*", cwd=folder),
        "several purposes cannot be combined",
    )
    assert files_in(folder) == ["net-0000.params", "net-symbol.json"]


def test_states_without_nodes_are_refused_until_upgraded(tmp_path: Path) -> None:
    write_json(tmp_path / "old.json", old_batch_norm())
    refused(
        graphshare(
            "share",
            "old.json",
            "--alias",
            "bn_moving_mean=other_mean",
            "-o",
            "o.json",
            cwd=tmp_path,
        ),
        "implied",
        "--upgrade",
    )
    done(
        graphshare(
            "share",
            "old.json",
            "--alias",
            "bn_moving_mean=other_mean",
            "--upgrade",
            "-o",
            "o.json",
            cwd=tmp_path,
        )
    )
    assert "other_mean" in [node["name"] for node in nodes_of(tmp_path / "o.json")]


def test_a_swap_of_parameters(folder: Path) -> None:
    rules = write_rules(
        folder, {"map": {"left/fc_weight": "right/fc_weight", "right/fc_weight": "left/fc_weight"}}
    )
    done(graphshare("share", "net", "--rules", rules, "-o", "one", cwd=folder))
    assert keys_of(folder / "one-0000.params") == [KEYS[2], KEYS[1], KEYS[0], KEYS[3]]
    done(graphshare("rename", "net", "--rules", rules, "-o", "two", cwd=folder))
    assert (folder / "two-symbol.json").read_bytes() == (folder / "one-symbol.json").read_bytes()


def test_a_whole_component_of_another_separator(tmp_path: Path) -> None:
    write_json(tmp_path / "net.json", twin_layers("_"))
    done(
        graphshare(
            "share",
            "net.json",
            "--override",
            "right=left",
            "--separator",
            "_",
            "-o",
            "o.json",
            cwd=tmp_path,
        )
    )
    assert "right_fc_weight" not in (tmp_path / "o.json").read_text()
    refused(
        graphshare(
            "share",
            "net.json",
            "--override",
            "ri=left",
            "--separator",
            "_",
            "-o",
            "p.json",
            cwd=tmp_path,
        )
    )


def test_the_plan_has_the_ties_and_their_rules(folder: Path) -> None:
    run = done(
        graphshare(
            "share", "net", "--override", "right=left", "--dry-run", "--format", "json", cwd=folder
        )
    )
    found = json.loads(run.stdout)
    assert find_violations(found, "plan") == []
    assert found["ties"] == {
        "tied": [{"name": f"right/fc_{p}", "to": f"left/fc_{p}", "rule": "--override right=left"} for p in ("weight", "bias")],
        "renamed": [], "copied": [], "separate": [],
    }  # fmt: skip
    assert found["records"] == [{"from": key, "to": key} for key in KEYS[:2]]
    assert files_in(folder) == ["net-0000.params", "net-symbol.json"]


def test_detect_untie_and_tie_again(tmp_path: Path) -> None:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        (tmp_path / name).write_bytes((ROOT / "fixtures" / name).read_bytes())
    done(graphshare("duplicate", "lenet", "--prefix", "sha-", "-o", "two", cwd=tmp_path))
    found = json.loads(
        done(graphshare("share", "two", "--detect", "--format", "json", cwd=tmp_path)).stdout
    )
    assert find_violations(found, "share-detect") == []
    pairs = [group["names"] for group in found["candidates"]]
    assert len(pairs) == 16
    assert all(
        b == f"sha-{a}" and group["why"] == "values"
        for (a, b), group in zip(pairs, found["candidates"], strict=True)
    )
    options = " ".join(
        option for group in found["candidates"] for option in group["options"]
    ).split()
    done(graphshare("share", "two", *options, "-o", "one", cwd=tmp_path))
    done(
        graphshare(
            "duplicate", "lenet", "--prefix", "sha-", "--mode", "tie", "-o", "tied", cwd=tmp_path
        )
    )
    assert (tmp_path / "one-0000.params").read_bytes() == (
        tmp_path / "lenet-0000.params"
    ).read_bytes()
    assert (tmp_path / "one-symbol.json").read_bytes() == (
        tmp_path / "tied-symbol.json"
    ).read_bytes()
    done(graphshare("share", "one", "--untie", "*", "-o", "apart", cwd=tmp_path))
    assert sorted(keys_of(tmp_path / "apart-0000.params")) == sorted(
        keys_of(tmp_path / "two-0000.params")
    )
    refused(
        graphshare("share", "two", "--untie", "*", "-o", "x", cwd=tmp_path),
        "no parameter of this graph has more than one user",
    )
    single = json.loads(
        done(graphshare("share", "lenet", "--detect", "--format", "json", cwd=tmp_path)).stdout
    )
    assert [
        group for group in single["candidates"] if group["why"] == "values" and not group["related"]
    ] == []


def test_two_variables_of_one_name(tmp_path: Path) -> None:
    nodes = [
        variable("x"),
        variable("w"),
        operator("dot", "a", [0, 1]),
        variable("w"),
        operator("dot", "b", [0, 3]),
    ]
    write_json(tmp_path / "net-symbol.json", document(nodes, [2, 4]))
    write_params(tmp_path / "net-0000.params", ["arg:w"])
    done(graphshare("share", "net", "--doctor", "tie", "-o", "one", cwd=tmp_path))
    assert [node["inputs"] for node in nodes_of(tmp_path / "one-symbol.json")][2:] == [
        [[0, 0, 0], [1, 0, 0]]
    ] * 2
    assert keys_of(tmp_path / "one-0000.params") == ["arg:w"]
    done(graphshare("share", "net", "--doctor", "separate", "-o", "two", cwd=tmp_path))
    assert [node["name"] for node in nodes_of(tmp_path / "two-symbol.json")] == [
        "x",
        "w",
        "a",
        "w_1",
        "b",
    ]
    assert keys_of(tmp_path / "two-0000.params") == ["arg:w", "arg:w_1"]
    refused(
        graphshare("share", "one", "--doctor", "tie", "-o", "x", cwd=tmp_path), "nothing to repair"
    )


def test_four_variables_of_one_name_are_numbered_in_turn(tmp_path: Path) -> None:
    nodes = [
        *map(variable, ("x", "x", "x", "x_2", "x")),
        operator("add_n", "sum", range(5), attrs={"num_args": "5"}),
    ]
    write_json(tmp_path / "net.json", document(nodes, [5]))
    done(graphshare("share", "net.json", "--doctor", "separate", "-o", "out.json", cwd=tmp_path))
    assert [node["name"] for node in nodes_of(tmp_path / "out.json")] == [
        "x",
        "x_1",
        "x_3",
        "x_2",
        "x_4",
        "sum",
    ]


def test_rename_by_pattern_and_back(folder: Path) -> None:
    done(
        graphshare(
            "rename",
            "net",
            "--match",
            "*/fc_*",
            "--to",
            "fc_{2}.{1}",
            "--map-out",
            "m.json",
            "-o",
            "new",
            cwd=folder,
        )
    )
    assert keys_of(folder / "new-0000.params")[0] == "arg:fc_weight.left"
    done(graphshare("rename", "new", "--map", "m.json", "--inverse", "-o", "old", cwd=folder))
    assert (folder / "old-symbol.json").read_bytes() == (folder / "net-symbol.json").read_bytes()
    assert (folder / "old-0000.params").read_bytes() == (folder / "net-0000.params").read_bytes()
    refused(
        graphshare("rename", "net", "--match", "*/fc_*", "--to", "fc_*", "-o", "x", cwd=folder),
        "would both become",
    )
    refused(
        graphshare(
            "rename", "net", "--match", "left/fc", "--to", "right/fc", "-o", "x", cwd=folder
        ),
        "already has",
    )
    refused(
        graphshare("rename", "net", "--match", "nothing*", "--to", "x", "-o", "x", cwd=folder),
        "matches no name",
    )
    refused(
        graphshare("rename", "net", "--match", "a", "-o", "x", cwd=folder), "1 --match and 0 --to"
    )
    refused(
        graphshare("rename", "net", "--inverse", "--prefix", "a", "-o", "x", cwd=folder), "--map"
    )
    refused(
        graphshare("rename", "net", "--map", "m.json", "--inverse", "-o", "x", cwd=folder),
        "which the graph does not have",
    )


def test_the_inverse_finds_how_strings_were_escaped(tmp_path: Path) -> None:
    source = json.dumps(document([variable("é"), operator("relu", "r", [0])], [1]), indent=2)
    (tmp_path / "a.json").write_text(source)
    done(
        graphshare(
            "rename",
            "a.json",
            "--prefix",
            "p-",
            "--map-out",
            "m.json",
            "-o",
            "b.json",
            cwd=tmp_path,
        )
    )
    assert "\\u00e9" not in (tmp_path / "b.json").read_text(encoding="utf-8")
    run = done(
        graphshare("rename", "b.json", "--map", "m.json", "--inverse", "-o", "c.json", cwd=tmp_path)
    )
    assert (tmp_path / "c.json").read_text() == source
    assert b"warning" not in run.stderr
    changed = json.loads((tmp_path / "m.json").read_text())
    changed["sources"][0]["sha256"] = "0" * 64
    write_json(tmp_path / "m.json", changed)
    run = done(
        graphshare("rename", "b.json", "--map", "m.json", "--inverse", "-o", "c.json", cwd=tmp_path)
    )
    assert b"not, byte for byte" in run.stderr


def test_a_pattern_that_a_later_one_overrules_is_a_note(folder: Path) -> None:
    options = ["--match", "*/fc_*", "--to", "x*.*", "--match", "*fc*", "--to", "*dense*"]
    said = done(graphshare("rename", "net", *options, "-o", "x", cwd=folder)).stderr.decode()
    assert (
        "warning: --match */fc_* --to x*.*: has no effect: a later rule decides every name that it matches"
        in said
    )
    refused(
        graphshare("rename", "net", *options, "--strict", "-o", "y", cwd=folder), "a later rule"
    )


def test_a_rename_does_not_tie(folder: Path) -> None:
    rules = write_rules(folder, {"scope": "right", "to": "left"})
    refused(
        graphshare("rename", "net", "--rules", rules, "-o", "x", cwd=folder),
        "already has",
        "`graphshare share`",
    )
    rules = write_rules(folder, {"scope": "right", "to": "middle"})
    done(graphshare("rename", "net", "--rules", rules, "-o", "x", cwd=folder))
    assert [node["name"] for node in nodes_of(folder / "x-symbol.json")][4:] == [
        "right/data", "middle/fc_weight", "middle/fc_bias", "right/fc"]  # fmt: skip


def test_scopes_blocks_and_aliases_resolve_together(tmp_path: Path) -> None:
    inner = {"within": "scope_b", "rules": [{"scope": "shared_child", "to": ""}]}
    rules = [{"scope": "scope_b", "to": "scope_a"}, inner, {"alias": "sha-*", "to": "*"}]
    write_json(tmp_path / "rules.json", {"version": 1, "rules": rules})
    done(graphshare("rules", "check", "rules.json", "--strict", cwd=tmp_path))
    found = done(
        graphshare(
            "rules", "explain", "sha-scope_b/shared_child/w", "--rules", "rules.json", cwd=tmp_path
        )
    )
    assert found.stdout.decode().splitlines()[-1] == "  scope_a/w"


def test_hints_at_operators_of_old_files(tmp_path: Path) -> None:
    net = twin_layers(fc={"num_hidden": "4", "weight_lr_mult": "0.5"})
    net["attrs"]["mxnet_version"] = ["int", 801]
    write_json(tmp_path / "net.json", net)
    said = done(
        graphshare("share", "net.json", "--override", "right=left", "-o", "o.json", cwd=tmp_path)
    ).stderr.decode()
    assert "'right/fc_weight' and 'left/fc_weight' have __lr_mult__ 0.5 and none" in said
    assert said.count("__lr_mult__") == 1


def test_what_may_be_a_parameter_is_left_alone_and_said(tmp_path: Path) -> None:
    nodes = [variable("left/p"), variable("right/p"), operator("MyOp", "a", [0, 1]), variable("left/fc_weight"),
             variable("right/fc_weight"), operator("MyOp", "b", [2, 3, 4])]  # fmt: skip
    write_json(tmp_path / "net.json", document(nodes, [5]))
    options = ["share", "net.json", "--override", "right=left", "-o", "o.json"]
    said = done(graphshare(*options, cwd=tmp_path)).stderr.decode()
    assert "warning: 'right/p' may be a parameter" in said
    assert "'left/p'" not in said
    assert [node["name"] for node in nodes_of(tmp_path / "o.json")][:3] == [
        "left/p",
        "right/p",
        "a",
    ]
    said = done(
        graphshare(*options, "--as-parameter", "right/p", "--as-parameter", "left/p", cwd=tmp_path)
    ).stderr.decode()
    assert "may be a parameter" not in said
    assert [node["name"] for node in nodes_of(tmp_path / "o.json")][:2] == ["left/p", "a"]


def test_scopes_of_tensorflow(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", siamese())
    done(
        graphshare(
            "rename",
            "a.json",
            "--name-scope",
            "foo",
            "--variable-scope",
            "goo",
            "-o",
            "b.json",
            cwd=tmp_path,
        )
    )
    assert [node["name"] for node in nodes_of(tmp_path / "b.json")] == [
        "foo/goo/data", "goo/conv_weight", "foo/goo/conv", "foo/goo/loss"]  # fmt: skip


def test_rules_explain(folder: Path) -> None:
    rules = write_rules(folder, {"scope": "scope_b", "to": "scope_a"},
                        {"within": "scope_b", "rules": [{"scope": "shared_child", "to": ""}]})  # fmt: skip
    said = done(
        graphshare("rules", "explain", "scope_b/shared_child/w", "--rules", rules, cwd=folder)
    ).stdout.decode()
    assert said.splitlines() == [
        "scope_b/shared_child/w (parameter)",
        (
            "  1. scope_b/shared_child/w -> scope_b/w  by scope 'shared_child' -> '' within 'scope_b' "
            "(rules.json: $.rules[1].rules[0])"
        ),
        "  2. scope_b/w -> scope_a/w  by scope 'scope_b' -> 'scope_a' (rules.json: $.rules[0])",
        "  scope_a/w",
    ]
    options = ["--override", "right=left", "--graph", "net-symbol.json", "--format", "json"]
    for name, kind, effect, result in (
        ("arg:right/fc_weight", "parameter", "tied", "left/fc_weight"),
        ("left/fc_weight", "parameter", "tied", "left/fc_weight"),
        ("right/fc", "operator", "kept", "right/fc"),
        ("right/data", "input", "kept", "right/data"),
    ):
        found = json.loads(done(graphshare("rules", "explain", name, *options, cwd=folder)).stdout)
        assert find_violations(found, "rules-explain") == []
        assert (found["kind"], found["effect"], found["result"]) == (kind, effect, result)
    third = ["--override", "right=third", *options[2:]]
    for name, effect in (("right/fc_weight", "renamed"), ("left/fc_weight", "kept")):
        assert (
            json.loads(done(graphshare("rules", "explain", name, *third, cwd=folder)).stdout)[
                "effect"
            ]
            == effect
        )
    refused(
        graphshare("rules", "explain", "rihgt/fc", *options, cwd=folder), "did you mean 'right/fc'"
    )
    refused(
        graphshare("rules", "explain", "a/w", "--override", "a=b", "--override", "b=a", cwd=folder),
        "cycle: a -> b -> a",
    )


def test_rules_explain_prefixes_step_by_step(folder: Path) -> None:
    rules = write_rules(folder, {"strip": "old_"}, {"prefix": "new_"}, {"variable_scope": "net"})
    said = done(
        graphshare("rules", "explain", "old_w", "--rules", rules, cwd=folder)
    ).stdout.decode()
    assert said.splitlines() == [
        "old_w (parameter)",
        "  1. old_w -> w  by strip 'old_' (rules.json: $.rules[0])",
        "  2. w -> new_w  by prefix 'new_' (rules.json: $.rules[1])",
        "  3. new_w -> net/new_w  by variable scope 'net' (rules.json: $.rules[2])",
        "  net/new_w",
    ]


def test_rules_check(folder: Path) -> None:
    def check(*rules: dict[str, Any], options: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
        run = graphshare(
            "rules", "check", write_rules(folder, *rules), "--format", "json", *options, cwd=folder
        )
        found = json.loads(run.stdout)
        assert find_violations(found, "rules-check") == []
        return run.returncode, found

    graph = ("--graph", "net-symbol.json")
    assert check({"scope": "right", "to": "left"}, options=graph) == (
        0,
        {"rules": 1, "errors": [], "warnings": []},
    )
    code, found = check({"scope": "a", "to": "b"}, {"scope": "b", "to": "a"})
    assert (code, found["errors"][0]["message"]) == (1, "scope overrides form a cycle: a -> b -> a")
    code, found = check({"nothing": 1}, {"prefix": 2})
    assert (code, [fault["path"] for fault in found["errors"]]) == (
        1,
        ["$.rules[0]", "$.rules[1].prefix"],
    )
    shadow = (
        {"scope": "right", "to": "x"},
        {"scope": "right", "to": "left"},
        {"alias": "q", "to": "left/fc_bias"},
    )
    code, found = check(*shadow, options=graph)
    assert code == 0
    assert [text.split(": ", 2)[2] for text in found["warnings"]] == [
        "scope 'right' -> 'x' is shadowed by rules.json: $.rules[1]", "alias 'q' -> 'left/fc_bias' never fires"]  # fmt: skip
    assert check(*shadow, options=(*graph, "--strict"))[0] == 1
    assert check({"alias": "left/fc_bias", "to": "right/data"}, options=graph)[0] == 1
    refused(graphshare("rules", "check", "missing.json", cwd=folder), "cannot be read")
    text = graphshare("rules", "check", write_rules(folder, {}), cwd=folder)
    assert text.returncode == 1
    assert b"error: rules.json: $.rules[0]" in text.stdout


@cache
def hostile() -> dict[str, Any]:
    count = size_of_day(3_000, 10_000)
    chain = [{"scope": f"s{i}", "to": f"s{i + 1}"} for i in range(count)]
    last = f"s{count - 1}"
    blocks = [
        {"within": last, "rules": [{"within": f"b{i}", "rules": [{"scope": "x", "to": "y"}]}]}
        for i in range(count)
    ]
    blocks += [
        {"within": f"s{i}", "rules": [{"scope": "x", "to": "y"}, {"alias": "a", "to": "b"}]}
        for i in range(count)
    ]
    blocks += [
        {
            "within": "s0",
            "rules": [
                {"within": f"c{i}", "rules": [{"scope": "q", "to": ""}]} for i in range(count)
            ],
        }
    ]
    deep: list[dict[str, Any]] = [{"scope": "a", "to": "b"}]
    for _ in range(300):
        deep = [{"within": "d", "rules": deep}]
    growing = [{"scope": f"s{i}", "to": f"s{i + 1}/{'x' * 900}"} for i in range(count)]
    return {
        "a long cycle": [*chain, {"scope": f"s{count}", "to": "s0"}],
        "a chain that grows": growing,
        "chains that thousands of blocks change": [*chain, *blocks],
        "deep blocks": deep,
        "a name of a megabyte": [{"prefix": "p" * (1 << 20)}, {"alias": "right/*", "to": "left/" + "q" * (1 << 20)}],
        "an expression that blows up": [{"match": "re:(a+)+(", "to": "x"}],
        "a deep scope": [{"scope": "/".join("d" * 100_000), "to": "/".join("e" * 100_000)},
                         {"scope": "right", "to": "/".join("d" * 100_000)}],
    }  # fmt: skip


@pytest.mark.parametrize("name", hostile())
def test_hostile_rules_end_soon_and_write_nothing(folder: Path, name: str) -> None:
    write_json(folder / "rules.json", {"version": 1, "rules": hostile()[name]})
    before = files_in(folder)
    for command in (
        ["share", "net", "--rules", "rules.json", "-o", "one"],
        ["rename", "net", "--rules", "rules.json", "-o", "one"],
    ):
        said = refused(graphshare(*command, cwd=folder))
        assert len(said) < 20_000
    assert files_in(folder) == before


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"version": 1, "rules": ' + "[" * 100_000,
        "\x00",
        "",
        "null",
        '{"a": 1, "a": 2}',
    ],
)
def test_files_that_are_no_rules(folder: Path, text: str) -> None:
    for name in ("rules.json", "rules.toml"):
        (folder / name).write_text(text)
        refused(graphshare("share", "net", "--rules", name, "-o", "one", cwd=folder), name)


def test_a_pattern_that_ties_everything_is_counted_in_a_warning(folder: Path) -> None:
    wide = ("share", "net", "--alias", "right*=left*", "-o", "one")
    said = done(graphshare(*wide, cwd=folder)).stderr.decode()
    assert "warning: one pattern ties all 4 parameters into 2: none is separate any more" in said
    refused(graphshare(*wide, "--strict", cwd=folder), "one pattern ties all 4 parameters into 2")
    narrow = ("share", "net", "--alias", "right*weight=left*weight", "-o", "one")
    assert "none is separate" not in done(graphshare(*narrow, cwd=folder)).stderr.decode()
    literal = (
        "--alias",
        "right/fc_weight=left/fc_weight",
        "--alias",
        "right/fc_bias=left/fc_bias",
        "-o",
        "one",
    )
    assert (
        "none is separate"
        not in done(graphshare("share", "net", *literal, cwd=folder)).stderr.decode()
    )


@pytest.mark.parametrize(
    "purpose", [["--untie", "*"], ["--doctor", "tie"], ["--detect"], ["--transposed"]]
)
def test_options_that_no_purpose_uses_are_refused(purpose: list[str], folder: Path) -> None:
    """Separator and policy are for rules; a tie of transposed tables looks at no role."""
    before = files_in(folder)
    options = [
        "--separator",
        ".",
        "--reuse",
        "auto",
        *(["--as-input", "left/data"] if "--transposed" in purpose else []),
    ]
    told = refused(
        graphshare(
            "share",
            "net",
            *purpose,
            *options,
            *([] if "--detect" in purpose else ["-o", "o"]),
            cwd=folder,
        )
    )
    assert all(
        f"{option} has no effect with" in told for option in options if option.startswith("--")
    )
    assert files_in(folder) == before


@pytest.mark.parametrize(("count", "shown"), [(8, 8), (9, 8), (11, 8)])
def test_many_ties_are_counted(count: int, shown: int, tmp_path: Path) -> None:
    nodes = [variable(name) for i in range(count) for name in (f"a{i}_weight", f"b{i}_weight")]
    nodes.append(operator("add_n", "sum", range(2 * count), attrs={"num_args": str(2 * count)}))
    write_json(tmp_path / "g.json", document(nodes, [2 * count]))
    words = [word for i in range(count) for word in ("--alias", f"b{i}_weight=a{i}_weight")]
    said = done(
        graphshare("share", "g.json", *words, "-o", "out.json", cwd=tmp_path)
    ).stderr.decode()
    assert f"tied: {count}\n" in said
    assert said.count(" -> ") == shown
    assert (f"and {count - 8} more (all with --dry-run)" in said, " more (" in said) == (
        count > 8,
        count > 8,
    )


def test_everything_equal_is_tied_by_one_option(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)
        <float[2] a = {1, 2}, float[2] b = {1, 2}, float[2] c = {2, 1}, float[2] d = {1, 3}, float[2] e = {2, 1}>
        { p = Add(x, a) q = Mul(p, b) r = Sub(q, c) s = Div(r, e) y = Add(s, d) }"""
    model = onnx.parser.parse_model(text)
    for name in ("a", "b"):  # a name that is also a pattern
        next(each for each in model.graph.initializer if each.name == name).name = f"{name}[*]"
    model.graph.node[0].input[1], model.graph.node[1].input[1] = "a[*]", "b[*]"
    onnx.save(model, tmp_path / "m.onnx")
    done(graphshare("share", "m.onnx", "--equal", "-o", "one.onnx", cwd=tmp_path))
    names = {each.name for each in onnx.load(tmp_path / "one.onnx").graph.initializer}
    assert names == {"a[*]", "c", "d"}
    done(graphshare("compare", "m.onnx", "one.onnx", "--exact", cwd=tmp_path))
    refused(
        graphshare("share", "one.onnx", "--equal", "-o", "two.onnx", cwd=tmp_path),
        "no parameter would change",
    )
    refused(
        graphshare("share", "m.onnx", "--equal", "--alias", "c=e", "-o", "x.onnx", cwd=tmp_path),
        "several purposes",
    )
    refused(graphshare("share", "m.onnx", "--equal", "--detect", cwd=tmp_path), "several purposes")


def _write_onnx(path: Path, text: str) -> None:
    onnx = pytest.importorskip("onnx")
    onnx.save(onnx.parser.parse_model(text), path)


def test_weights_in_attributes_are_said_to_be_copied(tmp_path: Path) -> None:
    numbers = ", ".join(map(str, range(40)))
    scaler = f"ai.onnx.ml.Scaler <offset = [{numbers}], scale = [{numbers}]>"
    text = f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[n,40] x) => (float[n,40] z)
        <float[2] a = {{1, 2}}, float[2] b = {{1, 2}}, float[2] c = {{2, 2}}>
        {{ y = {scaler} (x) p = {{}}(y) s = Add (a, b) q = Mul (s, c) t = ReduceSum <keepdims = 0> (q) z = Mul (p, t) }}"""
    note = "weights in attributes are copied, not shared: Scaler of y, p are equal"
    _write_onnx(tmp_path / "twice.onnx", text.replace("{}", scaler))
    _write_onnx(tmp_path / "once.onnx", text.replace("{}", scaler.replace("39]", "38]")))
    share = ("share", "--equal", "-o", "one.onnx")
    assert note in done(graphshare(*share, "twice.onnx", cwd=tmp_path)).stderr.decode()
    assert (
        "attributes"
        not in done(graphshare(*share, "--overwrite", "once.onnx", cwd=tmp_path)).stderr.decode()
    )
    duplicate = ("duplicate", "once.onnx", "--prefix", "b_")
    said = done(
        graphshare(*duplicate, "--mode", "tie", "-o", "tied.onnx", cwd=tmp_path)
    ).stderr.decode()
    assert "Scaler of y, b_y are equal" in said
    assert (
        "attributes"
        not in done(graphshare(*duplicate, "-o", "copied.onnx", cwd=tmp_path)).stderr.decode()
    )


@pytest.mark.parametrize(
    ("third", "bias", "notes"),
    [
        ("float[2] c = {1, 5}", "c", 1),
        ("float[2] c = {1, 5}", "d", 0),  # another use of the weight has this bias
        ("float[1] c = {1}", "c", 0),  # no tie of two shapes
    ],
)
def test_parameters_beside_tied_ones_are_forgotten_only_if_they_could_be_tied(
    third: str, bias: str, notes: int, tmp_path: Path
) -> None:
    weights = "float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 2}, float[2] d = {3, 4}"
    nodes = f"p = Gemm (x, v, d) q = Gemm (p, v, b) r = Gemm (q, w, {bias}) y = Add (r, c)"
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2,2] x) => (float[2,2] y) <{weights}, '
        f"{third}> {{ {nodes} }}"
    )
    _write_onnx(tmp_path / "m.onnx", text)
    run = done(graphshare("share", "m.onnx", "--alias", "w=v", "-o", "tied.onnx", cwd=tmp_path))
    assert run.stderr.decode().count("beside them are not") == notes
    run = done(graphshare("share", "m.onnx", "--equal", "-o", "equal.onnx", cwd=tmp_path))
    assert "beside them" not in run.stderr.decode()
