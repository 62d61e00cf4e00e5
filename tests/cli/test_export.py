"""``export`` as a user runs it: the file, its proof, weights in three places, ties, free sizes, refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphshare as gs
from graphshare.api.export import export
from graphshare.checkpoint.load import load
from graphshare.checkpoint.model import Checkpoint
from graphshare.cli.console import name_options
from graphshare.errors import DisprovedError, RefusedError, UsageError
from graphshare.files.schema import find_violations
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.registry import TRANSLATIONS, register_translation
from graphshare.ops.translation import NoTranslation, Translation, Translator
from graphshare.verification import onnx_checker
from tests.processes import ROOT, done, files_in, graphshare, refused, write_json
from tests.symbols import document, mxnet_text, operator, variable

LENET = ("lenet", "--shape", "data=1,1,28,28")
SHAPE = {"data": (1, 1, 28, 28)}
TANH = ["tanh1", "tanh2", "tanh3"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        (tmp_path / name).write_bytes((ROOT / "fixtures" / name).read_bytes())
    return tmp_path


@pytest.fixture
def siamese(folder: Path) -> Path:
    done(
        graphshare(
            "duplicate", "lenet", "--prefix", "sha-", "--mode", "tie", "-o", "siam", cwd=folder
        )
    )
    return folder


def run_model(path: Path, **feeds: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def test_a_model_is_written_and_proved(folder: Path) -> None:
    run = done(graphshare("export", *LENET, "-o", "lenet.onnx", cwd=folder))
    assert run.stdout == b""
    assert b"EQUAL in onnxruntime" in run.stderr
    assert b"left out: softmax_label" in run.stderr
    assert b"\ninput data 1x1x28x28\noutput softmax_output 1x10\nwrote lenet.onnx: " in run.stderr
    model = onnx.load(folder / "lenet.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
    assert [value.name for value in model.graph.input] == ["data"]
    assert [value.name for value in model.graph.output] == ["softmax_output"]
    assert {"conv1_weight", "fc2_bias"} <= {tensor.name for tensor in model.graph.initializer}
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["graphshare.source"] == "lenet-symbol.json"
    assert len(metadata["graphshare.source.sha256"]) == 64
    assert metadata["graphshare.source.version"] == "MXNet 1.9.1"
    image = np.random.default_rng(0).standard_normal((1, 1, 28, 28)).astype("float32")
    np.save(folder / "data.npy", image)
    done(graphshare("run", "lenet", "--feed", "data=data.npy", "-o", "out.npz", cwd=folder))
    with np.load(folder / "out.npz") as wanted:
        (found,) = run_model(folder / "lenet.onnx", data=image)
        np.testing.assert_allclose(found, wanted["softmax_output"], rtol=1e-5, atol=1e-7)


def test_the_report_as_json(folder: Path) -> None:
    arguments = ["export", *LENET, "-o", "lenet.onnx", "--format", "json"]
    for more in ([], ["--no-verify"], ["--dynamic-batch"]):
        found = json.loads(done(graphshare(*arguments, *more, cwd=folder)).stdout)
        assert find_violations(found, "export") == []
        assert found["proved"] is ("--no-verify" not in more)
    assert found["inputs"] == {"data": ["batch", 1, 28, 28]}


def test_without_a_proof_the_file_is_the_same(folder: Path) -> None:
    done(graphshare("export", *LENET, "-o", "a.onnx", cwd=folder))
    run = done(graphshare("export", *LENET, "-o", "b.onnx", "--no-verify", cwd=folder))
    assert b"NOT PROVED" in run.stderr
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


@pytest.mark.parametrize("weights", ["embed", "external", "params"])
def test_weights_in_three_places_compute_the_same(weights: str, folder: Path) -> None:
    done(graphshare("export", *LENET, "-o", f"{weights}.onnx", "--weights", weights, cwd=folder))
    done(graphshare("export", *LENET, "-o", "embed.onnx", cwd=folder))
    image = np.random.default_rng(1).standard_normal((1, 1, 28, 28)).astype("float32")
    (found,), (wanted,) = (
        run_model(folder / f"{name}.onnx", data=image) for name in (weights, "embed")
    )
    assert np.array_equal(found, wanted)
    assert (folder / "external.onnx.data").exists() == (weights == "external")
    if weights != "embed":
        assert (folder / f"{weights}.onnx").stat().st_size < 5000
    if weights == "params":
        external = onnx.load(folder / "params.onnx", load_external_data=False)
        located = [
            t for t in external.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL
        ]
        assert {e.value for t in located for e in t.external_data if e.key == "location"} == {
            "lenet-0000.params"
        }
        assert any(
            entry.key == "graphshare.sha256.lenet-0000.params" for entry in external.metadata_props
        )


def test_weights_stay_only_where_onnx_may_look(folder: Path) -> None:
    (folder / "below").mkdir()
    text = refused(graphshare("export", *LENET, "-o", "below/", "--weights", "params", cwd=folder))
    assert "neither in the directory of the model nor below it" in text
    assert "--weights external" in text
    assert files_in(folder / "below") == []
    os.link(folder / "lenet-0000.params", folder / "again.params")
    text = refused(graphshare("export", *LENET, "-o", "x.onnx", "--weights", "params", cwd=folder))
    assert "several hard links" in text
    done(graphshare("export", *LENET, "-o", "below/", cwd=folder))
    assert files_in(folder / "below") == ["lenet.onnx"]


def test_tied_branches_are_one_set_of_weights_and_equal_bit_for_bit(siamese: Path) -> None:
    done(graphshare("export", *LENET, "-o", "one.onnx", cwd=siamese))
    shapes = ("--shape", "data=1,1,28,28", "--shape", "sha-data=1,1,28,28")
    run = done(graphshare("export", "siam", *shapes, "-o", "two.onnx", cwd=siamese))
    assert b"bit for bit in the branches sha-" in run.stderr
    one, two = (onnx.load(siamese / name) for name in ("one.onnx", "two.onnx"))
    assert [t.name for t in two.graph.initializer if "/" not in t.name] == [
        t.name for t in one.graph.initializer if "/" not in t.name
    ]
    more = (siamese / "two.onnx").stat().st_size - (siamese / "one.onnx").stat().st_size
    assert more < 2000


def slightly_wrong(t: Translation) -> str:
    """Translate tanh; in the branch sha-, which alone has the input of that name, with an error of
    one part in a million.
    """
    result = t.emit("Tanh", t.inputs[0])
    return (
        t.emit("Mul", result, t.number(1 + 1e-6, "float32"))
        if t.inputs[0].name.startswith("sha-")
        else result
    )


def wrong(t: Translation) -> str:
    return t.emit("Sigmoid", t.inputs[0])


@pytest.fixture
def translate_activation(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    return lambda function: register_translation(Translator("Activation", function))


def test_a_wrong_model_is_not_written(folder: Path, translate_activation: Any) -> None:
    translate_activation(wrong)
    before = files_in(folder)
    with pytest.raises(
        DisprovedError, match=r"first value that differs is \w+_output \(Activation\)"
    ):
        export(folder / "lenet", folder / "x.onnx", shapes=SHAPE)
    assert files_in(folder) == before


def test_a_branch_that_is_slightly_apart_is_found(siamese: Path, translate_activation: Any) -> None:
    translate_activation(slightly_wrong)
    with pytest.raises(DisprovedError, match="sha-softmax_output"):
        export(siamese / "siam", siamese / "x.onnx", shapes={**SHAPE, "sha-data": (1, 1, 28, 28)})


def test_branches_with_other_weights_may_differ(folder: Path) -> None:
    done(graphshare("duplicate", "lenet", "--prefix", "sha-", "-o", "siam", cwd=folder))
    model = load(folder / "siam")
    other = model.with_params({"sha-fc2_bias": model.params["fc2_bias"] + 1})
    proof = export(
        other, folder / "x.onnx", shapes={**SHAPE, "sha-data": (1, 1, 28, 28)}
    ).report.proof
    assert proof
    assert proof.branches == ()


def test_free_sizes(folder: Path) -> None:
    done(graphshare("export", *LENET, "--dynamic-batch", "-o", "batch.onnx", cwd=folder))
    images = np.random.default_rng(2).standard_normal((7, 1, 28, 28)).astype("float32")
    (found,) = run_model(folder / "batch.onnx", data=images)
    assert found.shape == (7, 10)
    done(graphshare("export", *LENET, "-o", "one.onnx", cwd=folder))
    for image, row in zip(images, found, strict=True):
        np.testing.assert_allclose(
            run_model(folder / "one.onnx", data=image[None])[0][0], row, rtol=1e-5, atol=1e-7
        )
    text = refused(
        graphshare("export", "lenet", "--shape", "data=n,1,h:28,w:28", "-o", "x.onnx", cwd=folder)
    )
    assert "FullyConnected" in text
    text = refused(
        graphshare("export", "lenet", "--shape", "date=n,1,h,w", "-o", "x.onnx", cwd=folder)
    )
    assert "did you mean" in text
    text = refused(
        graphshare("export", *LENET, "--dynamic", "data=n,1,h,w", "-o", "x.onnx", cwd=folder)
    )
    assert (
        "there is no option --dynamic any more\n  hint: name the sizes in --shape, as in --shape data=n,3,h,w"
        in text
    )
    assert not (folder / "x.onnx").exists()


@pytest.mark.parametrize("as_input", [(), ("s",)])
def test_the_states_of_a_recurrent_layer_have_their_batch_on_the_second_axis(
    as_input: tuple[str, ...],
) -> None:
    attrs = {"mode": "rnn_tanh", "num_layers": "1", "state_size": "3", "state_outputs": "False"}
    steps = operator("SwapAxis", "steps", [0], attrs={"dim1": "0", "dim2": "1"})
    nodes = [
        variable("data"),
        steps,
        variable("w"),
        variable("s"),
        operator("RNN", "rnn", [1, 2, 3], attrs=attrs),
    ]
    model = Checkpoint(read_symbol(mxnet_text(document(nodes, [4])).encode())).with_params(
        {"w": np.zeros(24, "float32")}
    )
    report = export(
        model, shapes={"data": (2, 4, 3), "s": (1, 2, 3)}, as_input=as_input, dynamic_batch=True
    ).report
    assert report.inputs == {"data": ("batch", 4, 3), "s": (1, "batch", 3)}
    assert report.outputs == {"rnn_output": (4, "batch", 3)}


@pytest.mark.parametrize(
    ("version", "text"), [(10901, "MXNet 1.9.1"), (10700, "MXNet 1.7.0"), (20000, "MXNet 2.0.0")]
)
def test_a_model_states_the_version_that_wrote_its_source(
    version: int, text: str, tmp_path: Path
) -> None:
    graph = read_symbol(
        mxnet_text(
            document([variable("x"), operator("relu", "y", [0])], [1], version=version)
        ).encode()
    )
    exported = export(Checkpoint(graph), shapes={"x": (2,)})
    assert exported.report.bytes == 0
    gs.save(exported, tmp_path / "y.onnx")
    metadata = {entry.key: entry.value for entry in onnx.load(tmp_path / "y.onnx").metadata_props}
    assert metadata["graphshare.source.version"] == text


def test_an_array_in_an_attribute_is_the_same_for_all_sizes(tmp_path: Path) -> None:
    write_json(
        tmp_path / "ones.json",
        document([variable("data"), operator("ones_like", "ones", [0])], [1]),
    )
    done(
        graphshare(
            "export",
            "ones.json",
            "--shape",
            "data=4,3",
            "--dynamic-batch",
            "-o",
            "ones.onnx",
            cwd=tmp_path,
        )
    )
    (ones,) = run_model(tmp_path / "ones.onnx", data=np.zeros((7, 3), "float32"))
    np.testing.assert_array_equal(ones, np.ones((7, 3), "float32"))


def test_a_batch_whose_samples_mix_is_refused_by_name(tmp_path: Path) -> None:
    nodes = [
        variable("data"),
        operator("SoftmaxActivation", "soft", [0]),
        operator("mean", "all", [1], axis="0"),
    ]
    write_json(tmp_path / "mixing.json", document(nodes, [2]))
    shape = ("--shape", "data=4,3")
    done(graphshare("export", "mixing.json", *shape, "-o", "x.onnx", cwd=tmp_path))
    text = refused(
        graphshare("export", "mixing.json", *shape, "-o", "y.onnx", "--dynamic-batch", cwd=tmp_path)
    )
    assert 'node "all"' in text
    assert not (tmp_path / "y.onnx").exists()


@pytest.fixture
def unsupported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    register_translation(NoTranslation("Activation", "ONNX has none of it"))  # type: ignore[arg-type]
    return folder


def test_all_that_cannot_be_exported_is_listed(unsupported: Path) -> None:
    before = files_in(unsupported)
    with pytest.raises(RefusedError, match="ONNX has none of it") as error:
        export(unsupported / "lenet", unsupported / "x.onnx", shapes=SHAPE)
    faults = error.value.faults
    assert [fault.node for fault in faults] == TANH
    assert "`gs.extract(GRAPH, targets=[" in faults[-1].hint
    assert files_in(unsupported) == before


def test_the_hint_leaves_a_part_that_can_be_exported(unsupported: Path) -> None:
    with pytest.raises(RefusedError) as error:
        export(unsupported / "lenet", unsupported / "x.onnx", shapes=SHAPE)
    hint = error.value.faults[-1].hint
    assert "operators can be exported" in hint
    arguments = (
        name_options(hint).partition("graphshare ")[2].replace("GRAPH", "lenet").rstrip("`").split()
    )
    done(graphshare(*arguments, "-o", "part", cwd=unsupported))
    model = load(unsupported / "part")
    assert export(model, unsupported / "part.onnx", shapes=SHAPE).report.proof


def test_without_a_part_that_can_be_exported_there_is_no_hint(tmp_path: Path) -> None:
    write_json(
        tmp_path / "lq.json",
        document([variable("data"), operator("_linalg_gelqf", "lq", [0])], [(1, 0, 0), (1, 1, 0)]),
    )
    text = refused(
        graphshare("export", "lq.json", "--shape", "data=2,3", "-o", "x.onnx", cwd=tmp_path)
    )
    reason = "operator _linalg_gelqf cannot be exported: ONNX has no decomposition into orthogonal matrices"
    assert text == f'error: lq.json (node "lq"): {reason}\n'


def test_a_domain_of_their_own_for_the_others(unsupported: Path) -> None:
    exported = export(
        unsupported / "lenet", unsupported / "x.onnx", shapes=SHAPE, custom_domain="org.example"
    )
    assert exported.report.proof is None
    assert any("tanh1" in note for note in exported.report.notes)
    model = onnx.load(unsupported / "x.onnx")
    onnx.checker.check_model(model)
    own = [node for node in model.graph.node if node.domain]
    assert [(node.op_type, node.domain, node.name) for node in own] == [
        ("Activation", "org.example", name) for name in TANH
    ]
    assert {opset.domain for opset in model.opset_import} == {"", "org.example"}


def test_what_is_missing_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "alone.json").write_bytes((folder / "lenet-symbol.json").read_bytes())
    assert "--params" in refused(
        graphshare("export", "alone.json", *LENET[1:], "-o", "x.onnx", cwd=folder)
    )
    assert "--shape data=" in refused(graphshare("export", "lenet", "-o", "x.onnx", cwd=folder))
    assert "is also an input" in refused(
        graphshare("export", *LENET, "-o", "lenet-0000.params", cwd=folder)
    )
    assert "cannot go to stdout" in refused(graphshare("export", *LENET, "-o", "-", cwd=folder))
    assert "--opset 12 is not supported" in refused(
        graphshare("export", *LENET, "-o", "x.onnx", "--opset", "12", cwd=folder)
    )
    monkeypatch.setattr(onnx_checker, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="onnx and onnxruntime are not installed"):
        export(folder / "lenet", folder / "x.onnx", shapes=SHAPE)
    assert not (folder / "x.onnx").exists()
    export(folder / "lenet", folder / "x.onnx", shapes=SHAPE, verify=False)


def test_up_to_an_inner_output(folder: Path) -> None:
    done(graphshare("export", *LENET, "--upto", "fc1", "-o", "features.onnx", cwd=folder))
    assert [value.name for value in onnx.load(folder / "features.onnx").graph.output] == [
        "fc1_output"
    ]


@pytest.mark.parametrize(
    "opset", [13, *(pytest.param(n, marks=pytest.mark.large) for n in range(14, 21)), 21]
)
def test_versions_of_the_operator_set(opset: int, folder: Path) -> None:
    run = graphshare("export", *LENET, "--opset", str(opset), "-o", "x.onnx", cwd=folder)
    if run.returncode:
        assert f"opset {opset} has no" in refused(run)
        return
    model = onnx.load(folder / "x.onnx")
    assert model.opset_import[0].version == opset
    onnx.checker.check_model(model, full_check=True)


def test_a_model_is_compared_with_its_graph(folder: Path) -> None:
    done(graphshare("export", *LENET, "--dynamic-batch", "-o", "x.onnx", cwd=folder))
    run = done(
        graphshare(
            "compare", "x.onnx", "lenet", "--shape", "data=3,1,28,28", "--rounds", "2", cwd=folder
        )
    )
    assert (
        b"EQUAL: the other model and the original, within the tolerance on 2 inputs" in run.stdout
    )
    found = graphshare("compare", "x.onnx", "lenet", "--format", "json", cwd=folder)
    assert find_violations(json.loads(found.stdout), "compare") == []
    model = load(folder / "lenet")
    other = model.with_params({"fc2_bias": np.arange(10, dtype="float32")})
    export(other, folder / "y.onnx", shapes=SHAPE)
    run = graphshare("compare", "y.onnx", "lenet", cwd=folder)
    assert run.returncode == 1
    assert b"NOT EQUAL" in run.stdout
    assert "`graphshare compare`" in refused(graphshare("verify", "x.onnx", cwd=folder))
    text = refused(graphshare("verify", "x.onnx", "--train-step", cwd=folder))
    assert "--train-step is for MXNet graphs" in text
    (folder / "broken.onnx").write_bytes(b"\0")
    assert "NUL bytes" in refused(graphshare("compare", "broken.onnx", "lenet", cwd=folder))


def test_a_batch_of_a_model_without_inputs_is_refused(tmp_path: Path) -> None:
    write_json(
        tmp_path / "constant.json",
        document([operator("_zeros", "zero", [], attrs={"shape": "(2, 3)"})], [0]),
    )
    done(graphshare("export", "constant.json", "-o", "x.onnx", cwd=tmp_path))
    text = refused(
        graphshare("export", "constant.json", "--dynamic-batch", "-o", "y.onnx", cwd=tmp_path)
    )
    assert "the model has no inputs" in text
    assert not (tmp_path / "y.onnx").exists()


def test_random_numbers_are_not_proved(tmp_path: Path) -> None:
    nodes = [
        variable("data"),
        operator("_random_normal_like", "noise", [0]),
        operator("elemwise_add", "sum", [0, 1]),
    ]
    write_json(tmp_path / "noisy.json", document([*nodes, operator("_shuffle", "order", [2])], [3]))
    noisy = ("export", "noisy.json", "--shape", "data=4,3", "-o", "x.onnx")
    text = refused(graphshare(*noisy, cwd=tmp_path))
    assert 'node "noise"' in text
    assert 'node "order"' in text
    assert "--no-verify" in text
    assert not (tmp_path / "x.onnx").exists()
    done(graphshare(*noisy, "--no-verify", cwd=tmp_path))
    assert run_model(tmp_path / "x.onnx", data=np.zeros((4, 3), np.float32))[0].std() > 0
