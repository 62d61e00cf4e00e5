"""The fingerprint of a model: it does not change with the way in which a model is written, and with
everything else it does.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.files.schema import find_violations
from tests.onnx_files.made import MADE
from tests.onnx_files.mutants import Effect, Mutant, choose_mutants, list_mutants, read_source
from tests.onnx_files.test_mutants import write
from tests.processes import ROOT, done, graphshare, in_process, write_json
from tests.surroundings import is_required
from tests.symbols import old_batch_norm, siamese, two_layers

onnx = pytest.importorskip("onnx")

# Version 1 never changes: these digests are those of every release and of every machine.
RECORDED = json.loads((Path(__file__).parent / "fingerprints.json").read_text())
NAMES = ("names of inputs", "names of outputs")
"""Exchanged names: two models that compute the same; only callers that feed by name tell them apart."""


def _counts(mutant: Mutant) -> bool:
    """Return whether version 1 lists what a change is of, whatever onnxruntime says of the changed file."""
    # That functions are called by
    is_domain = mutant.place == "opset of a model" and "opset_import0" not in mutant.path
    # A Constant with a second output is still a weight, and a sparse tensor the dense one that it means.
    return not (
        mutant.place in (*NAMES, "number of outputs") or "sparse" in mutant.name or is_domain
    )


@pytest.mark.parametrize("mutant", list_mutants() if is_required("large") else choose_mutants(of_each_model=False),
                         ids=lambda mutant: mutant.name)  # fmt: skip
def test_every_change_of_the_model_is_one_of_its_fingerprint(
    mutant: Mutant, tmp_path: Path
) -> None:
    before = gs.fingerprint(write(read_source(mutant.source), tmp_path / "before"))
    try:
        after = gs.fingerprint(write(mutant.build(), tmp_path / "after"))
    except gs.GraphshareError:
        return  # the changed file is refused
    if mutant.effect is Effect.COMPUTED and _counts(mutant):
        assert after != before
    if mutant.effect is Effect.NOTHING and mutant.place != "order of inputs of a graph":
        assert after == before


@pytest.mark.parametrize("name", MADE)
def test_a_model_keeps_its_fingerprint_however_it_is_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = MADE[name]()
    path.write_bytes(model.SerializeToString())
    (tmp_path / "w.bin").write_bytes(bytes(range(32)))
    before = gs.fingerprint(path)
    gs.save(gs.rename(path, prefix="p_"), tmp_path / "renamed.onnx")
    assert gs.fingerprint(tmp_path / "renamed.onnx") == before
    whole = onnx.load(path)
    onnx.save(
        whole,
        tmp_path / "outside.onnx",
        save_as_external_data=True,
        location="o.bin",
        size_threshold=0,
    )
    assert gs.fingerprint(tmp_path / "outside.onnx") == before
    gs.pool([path], tmp_path / "pool", verify=False)
    assert gs.fingerprint(tmp_path / "pool" / "m.onnx") == before


def test_weights_and_structure_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MADE["dense"]().SerializeToString())
    model = gs.load(path)
    before = gs.fingerprint(model)
    other = gs.fingerprint(model.with_params({"w": np.full((2, 2), 0.25, "float32")}))
    assert (other.structure == before.structure, other.weights == before.weights) == (True, False)
    assert gs.fingerprint(model.with_params({"w": np.full((2, 2), 0.5, "float32")})) == before


def test_a_tied_weight_is_not_two_equal_ones(tmp_path: Path) -> None:
    model = MADE["dense"]()
    (tmp_path / "tied.onnx").write_bytes(model.SerializeToString())
    copy = model.graph.initializer.add()
    copy.CopyFrom(model.graph.initializer[0])
    copy.name = "copy"
    model.graph.node[2].input[1] = "copy"
    (tmp_path / "copied.onnx").write_bytes(model.SerializeToString())
    tied, copied = (gs.fingerprint(tmp_path / f"{name}.onnx") for name in ("tied", "copied"))
    assert tied.structure != copied.structure


@pytest.mark.parametrize("name", ["Constant", "initializer"])
def test_a_constant_is_a_weight_like_an_initializer(name: str, tmp_path: Path) -> None:
    text = {
        "Constant": "{ w = Constant <value = float[2] {1, 2}> () y = Add(x, w) }",
        "initializer": "<float[2] w = {1, 2}> { y = Add(x, w) }",
    }
    both = {}
    for kind, body in text.items():
        source = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {body}'
        onnx.save(onnx.parser.parse_model(source), tmp_path / f"{kind}.onnx")
        both[kind] = gs.fingerprint(tmp_path / f"{kind}.onnx")
    assert both[name] == both["Constant"]


def test_version_1_never_changes(tmp_path: Path) -> None:
    assert list_recorded(tmp_path) == RECORDED


def list_recorded(folder: Path) -> dict[str, list[str | None]]:
    """Return the digests of models of every kind: of this package, and of MXNet with and without parameters."""
    (folder / "w.bin").write_bytes(bytes(range(32)))
    paths = {name: ROOT / "fixtures" / name for name in ("small.onnx", "lenet", "nin", "blog")}
    for name, make in MADE.items():
        paths[name] = folder / f"{name}.onnx"
        paths[name].write_bytes(make().SerializeToString())
    for name, document in (
        ("siamese", siamese()),
        ("layers", two_layers()),
        ("old", old_batch_norm()),
    ):
        paths[name] = write_json(folder / f"{name}.json", document)
    digests = {name: gs.fingerprint(path) for name, path in paths.items()}
    return {name: [each.structure, each.weights] for name, each in digests.items()}


def test_a_graph_of_mxnet_keeps_its_fingerprint_under_other_names_and_in_other_files(
    tmp_path: Path,
) -> None:
    before = gs.fingerprint(ROOT / "fixtures" / "lenet")
    done(
        graphshare(
            "rename",
            str(ROOT / "fixtures" / "lenet"),
            "--prefix",
            "p_",
            "-o",
            "renamed",
            cwd=tmp_path,
        )
    )
    assert gs.fingerprint(tmp_path / "renamed") == before
    done(graphshare("params", "convert", "renamed-0000.params", "w.safetensors", cwd=tmp_path))
    assert (
        gs.fingerprint(gs.load(tmp_path / "renamed-symbol.json", params=tmp_path / "w.safetensors"))
        == before
    )
    alone = gs.fingerprint(tmp_path / "renamed-symbol.json")
    assert (alone.structure, alone.weights) == (before.structure, None)


def test_a_model_without_its_weights_has_a_structure(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(MADE["external"]().SerializeToString())
    without = gs.fingerprint(path)
    (tmp_path / "w.bin").write_bytes(bytes(range(32)))
    assert without.weights is None
    assert gs.fingerprint(path).structure == without.structure
    (tmp_path / "w.bin").unlink()
    assert done(
        in_process("inspect", "m.onnx", "--fingerprint", cwd=tmp_path)
    ).stdout.decode().splitlines() == [f"structure {without.structure}", "weights   not found"]


def test_functions_that_call_each_other_have_no_fingerprint(tmp_path: Path) -> None:
    model = MADE["functions"]()
    call = onnx.helper.make_node("Leak", ["x"], ["y"], domain="own")
    call.attribute.append(
        onnx.AttributeProto(name="slope", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    model.functions[0].node[0].CopyFrom(call)
    model.functions[0].opset_import.add(domain="own", version=1)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(gs.InputError, match="in a circle"):
        gs.fingerprint(tmp_path / "m.onnx")


def test_the_same_model_is_found_twice_in_a_folder(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        model = MADE["dense"]()
        model.producer_name = name
        (tmp_path / name).write_bytes(model.SerializeToString())
    (tmp_path / "c.onnx").write_bytes(MADE["loop"]().SerializeToString())
    run = done(
        in_process("foreach", "*.onnx", "--", "inspect", "{}", "--fingerprint", cwd=tmp_path)
    )
    assert "the same model: a.onnx, b.onnx" in run.stdout.decode().splitlines()
    (tmp_path / "d.onnx").write_bytes(b"nothing")
    run = in_process("inspect", ".", "--fingerprint", cwd=tmp_path)
    lines = run.stdout.decode().splitlines()
    assert run.returncode == 2
    assert lines[0].split()[:2] == lines[1].split()[:2] != lines[2].split()[:2]
    assert b"d.onnx: is not an ONNX model" in run.stderr
    found = json.loads(
        in_process("inspect", ".", "--fingerprint", "--format", "json", cwd=tmp_path).stdout
    )
    assert find_violations(found, "fingerprint") == []
    assert find_violations(json.loads(in_process("inspect", "a.onnx", "--fingerprint", "--format", "json", cwd=tmp_path).stdout),
                   "fingerprint") == []  # fmt: skip
