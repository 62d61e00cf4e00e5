"""Every command on a model: what must hold of its answer and of the file that it writes.

A cell returns a word about how it is right, where that needs one. It raises Refusal where the
command said no, Missing where there is nothing to do it with, and anything else where the answer is
wrong.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
from onnx import numpy_helper

from tests.onnx_files.bench import (
    PLAIN,
    PREFIX,
    SMALL,
    UPPER,
    Bench,
    Missing,
    Refusal,
    Wrong,
    count_bytes,
    demand,
)
from tests.onnx_files.running import Session, are_same
from tests.processes import in_process

GROWTH = 1.5
"""A tied branch adds at most so many times what is not weights of 128 bytes or more: its nodes, with longer names."""


def inspect(bench: Bench) -> None:
    """The inputs, outputs and weights are named, and types are what ONNX infers."""
    bench.command("inspect", bench.path)
    facts = json.loads(bench.command("inspect", bench.path, "--names", "--format", "json"))
    demand(facts["inputs"] == bench.inputs, f"inputs {facts['inputs']}")
    demand(facts["outputs"] == bench.heads, f"outputs {facts['outputs']}")
    demand(
        not (lost := set(bench.weights) - set(facts["parameters"])),
        f"does not list the weights {sorted(lost)[:3]}",
    )
    types = {value["name"]: value for value in (facts.get("shaped") or {}).get("outputs", [])}
    for name in bench.complete:
        kind = bench.inner[name].tensor_type
        dims = [
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
            for dim in kind.shape.dim
        ]
        demand(name in types, f"does not know the type of {name}")
        sizes, dtype = (
            types[name]["shape"],
            onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name,
        )
        demand(
            sizes is not None and len(sizes) == len(dims), f"{name} is {sizes}, and ONNX has {dims}"
        )
        agree = all(
            b is None or a == b or isinstance(a, str) for a, b in zip(sizes, dims, strict=True)
        )
        # A name that the file states may be a number for ONNX
        demand(agree, f"{name} is {sizes}, and ONNX has {dims}")
        demand(
            types[name]["dtype"] in (dtype, "string"),
            f"{name} is {types[name]['dtype']}, and ONNX has {dtype}",
        )


def inspect_sized(bench: Bench) -> None:
    """With the shapes of the inputs that the model ran on, the sizes of inner values are those that they had."""
    arrays = {
        name: value
        for name, value in bench.feeds.items()
        if isinstance(value, np.ndarray) and value.ndim
    }
    shapes = [f"{name}={','.join(map(str, value.shape))}" for name, value in arrays.items()]
    if not shapes or not bench.values:
        raise Missing("it did not run on tensors")
    words = [word for shape in shapes for word in ("--shape", shape)]
    facts = json.loads(bench.command("inspect", bench.path, "--names", "--format", "json", *words))
    types = {value["name"]: value for value in facts["shaped"]["outputs"]}
    for name in bench.complete:  # an output is what the file states, true or not
        value = bench.values.get(name)
        if value is None:
            continue
        sizes = types[name]["shape"] if name in types else None
        numbers = [size if isinstance(size, int) else None for size in sizes or np.shape(value)]
        same = len(numbers) == np.ndim(value) and all(
            a in (None, b) for a, b in zip(numbers, np.shape(value), strict=True)
        )
        demand(same, f"{name} is {sizes}, and it was {np.shape(value)}")


def check(bench: Bench, path: Path | None = None) -> None:
    """There is an error where the checker or onnxruntime refuses the model, and nowhere else."""
    run = in_process("check", path or bench.path, "--format", "json", cwd=bench.folder)
    demand(run.returncode in (0, 1), run.stderr.decode()[-300:])
    findings = [f for f in json.loads(run.stdout)["findings"] if f["level"] == "error"]
    if bench.fault or bench.reason.startswith("onnxruntime refuses"):
        return
    demand(
        not findings,
        f"finds a fault where none is: {[(f['code'], f['message']) for f in findings[:3]]}",
    )


def check_written(bench: Bench) -> None:
    """Files that commands wrote have no fault that the model has not."""
    if bench.fault:
        raise Missing("the checker refuses the model")
    for name in WRITTEN:
        if (bench.folder / name).exists():
            check(bench, bench.folder / name)


def diff_same(bench: Bench) -> None:
    """A model does not differ from itself."""
    bench.command("diff", bench.path, bench.path)


def diff_names(bench: Bench) -> None:
    """A renamed model differs by names alone."""
    renamed = bench.existing("renamed.onnx")
    bench.command(
        "diff", bench.path, renamed, "--ignore-names", "--map", bench.folder / "renamed.json"
    )


def change(bench: Bench) -> Path:
    """Return the model with one number of a weight changed."""
    path = bench.folder / "changed.onnx"
    if path.exists():
        return path
    model = onnx.load(bench.path)
    constants = (
        a
        for node in model.graph.node
        for a in node.attribute
        if node.op_type == "Constant" and a.ByteSize() >= SMALL
    )
    tensors = [
        *model.graph.initializer,
        *(attribute.t for attribute in constants if attribute.HasField("t")),
    ]
    floats = [tensor for tensor in tensors if not tensor.name or tensor.name in bench.needed]
    floats = [
        tensor
        for tensor in floats
        if tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) >= 4
    ]
    if not floats:
        raise Missing("no weight in float32")
    tensor = random.Random(bench.source.name).choice(floats)
    array = numpy_helper.to_array(tensor).copy()
    array.flat[0] += 1
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, path)
    return path


def diff_changed(bench: Bench) -> None:
    """One number that is changed in a weight is a difference."""
    bench.command("diff", bench.path, change(bench), no="DIFFERENT")


def verify_same(bench: Bench) -> str:
    """A model equals itself, by values where onnxruntime computes it."""
    text = bench.command("compare", bench.path, bench.path, *bench.given)
    demand(text.rstrip().splitlines()[-1].startswith("EQUAL"), text[-200:])
    return ""


def verify_changed(bench: Bench) -> None:
    """One number that is changed in a weight is never EQUAL: an output shows it, or a region that no output shows."""
    bench.command("compare", bench.path, change(bench), *bench.given, no="NOT ")


def verify_layers(bench: Bench) -> None:
    """A model equals itself layer by layer, and equals what was recorded."""
    bench.command("compare", bench.path, bench.path, "--layers", *bench.given)
    bench.command("compare", bench.path, bench.existing("all.npz"), "--layers")


def rename(bench: Bench) -> None:
    """A prefix for every name; the numbers stay, and the map takes the names back to the same bytes."""
    out = bench.write(
        "rename",
        bench.path,
        "-p",
        PREFIX,
        "--map-out",
        bench.folder / "renamed.json",
        to="renamed.onnx",
    )
    bench.compare(out, PREFIX)
    back = bench.write(
        "rename", out, "--map", bench.folder / "renamed.json", "--inverse", to="back.onnx"
    )
    demand(back.read_bytes() == bench.source.data, "renamed back it has other bytes")


def rename_weights(bench: Bench) -> None:
    """Only the weights get other names, and the numbers stay."""
    if not bench.weights:
        raise Missing("no initializer")
    out = bench.write("rename", bench.path, "-p", "w_", "--only", "parameters", to="weights.onnx")
    if not bench.weights.keys() & set(bench.heads):
        bench.compare(out, "")
    names = {tensor.name for tensor in onnx.load(out, load_external_data=False).graph.initializer}
    demand(all(f"w_{name}" in names for name in bench.weights), f"weights are {sorted(names)[:3]}")


def duplicate_copy(bench: Bench) -> None:
    """Both branches of a copy compute what the model does."""
    out = bench.write("duplicate", bench.path, "-p", PREFIX, to="copy.onnx")
    bench.compare(out, "", PREFIX)


def duplicate_tie(bench: Bench) -> str:
    """Both branches of a tie compute what the model does, and weights are there once."""
    out = bench.write("duplicate", bench.path, "-p", PREFIX, "--mode", "tie", to="tie.onnx")
    bench.compare(out, "", PREFIX)
    data = sum(map(len, bench.source.files.values()))
    size = len(bench.source.data) + data
    rest, growth = 1 - sum(count_bytes(bench.proto)) / size, (out.stat().st_size + data) / size - 1
    what = f"weights are {1 - rest:.1%} of the bytes, and the file grew by {growth:.1%}"
    demand(growth <= max(GROWTH * rest, 0.05), what)
    return what


def duplicate_mixed(bench: Bench) -> None:
    """Three branches on the same inputs, one weight copied and the others tied."""
    weights = [name for name, tensor in bench.weights.items() if tensor.ByteSize() >= SMALL]
    words = ["--copy", f"={min(weights)}"] if len(weights) > 1 else []
    words += [
        word
        for name in bench.inputs
        if name not in bench.heads
        for word in ("--share-input", f"={name}")
    ]
    words += ["-p", PREFIX, "-p", "c_", "--map-out", "mixed.json"]
    out = bench.write("duplicate", bench.path, "--mode", "tie", *words, to="mixed.onnx")
    bench.compare(out, "", PREFIX, "c_")
    if not bench.reason:
        text = bench.command("verify", out, "--map", "mixed.json", *bench.given)
        demand(text.rstrip().splitlines()[-1].startswith("EQUAL"), text[-200:])


def duplicate_upto(bench: Bench) -> None:
    """A branch up to an inner value computes that value."""
    name = bench.pick("target")
    out = bench.write(
        "duplicate", bench.path, "-p", PREFIX, "--mode", "tie", "--upto", f"={name}", to="upto.onnx"
    )
    if name in bench.values:
        outputs = bench.run(out)
        demand(are_same(outputs[PREFIX + name], bench.values[name]), f"computes another {name}")
        bench.compare(out, "")


def verify_branches(bench: Bench, name: str) -> None:
    """The branches that were made are equal."""
    text = bench.command("verify", bench.existing(name), *bench.given)
    demand(text.rstrip().splitlines()[-1].startswith("EQUAL"), text[-200:])


def share_alias(bench: Bench) -> None:
    """The copies are tied to their originals."""
    out = bench.write(
        "share", bench.existing("copy.onnx"), "--alias", f"{PREFIX}*=*", to="shared.onnx"
    )
    bench.compare(out, "", PREFIX)
    tied = bench.existing("tie.onnx").stat().st_size
    demand(
        out.stat().st_size <= tied * 1.05 + 1000,
        f"{out.stat().st_size:,} bytes, and a tie has {tied:,}",
    )


def share_detect(bench: Bench) -> None:
    """What is stored twice in a copy is listed, and nothing is written."""
    text = bench.command("share", bench.existing("copy.onnx"), "--detect")
    twins = [name for name, tensor in bench.weights.items() if np.prod(tensor.dims) >= 8]
    demand(
        not twins or any(f"{PREFIX}" in line and "--alias " in line for line in text.splitlines()),
        text[-200:],
    )


def share_untie(bench: Bench) -> None:
    """Tied weights get copies, and the numbers stay."""
    out = bench.write("share", bench.existing("tie.onnx"), "--untie", "*", to="untied.onnx")
    bench.compare(out, "", PREFIX)


def rules(bench: Bench) -> None:
    """A rules file is checked against the model, and says what becomes of a weight."""
    if not bench.weights:
        raise Missing("no initializer")
    name, copy = min(bench.weights), bench.existing("copy.onnx")
    path = bench.folder / "rules.json"
    path.write_text(json.dumps({"version": 1, "rules": [{"alias": f"{PREFIX}*", "to": "*"}]}))
    bench.command("rules", "check", path, "--graph", copy)
    text = bench.command("rules", "explain", PREFIX + name, "--graph", copy, "--rules", path)
    demand(name in text, text[-200:])


def extract_target(bench: Bench) -> None:
    """What an inner value needs gives that value."""
    name = bench.pick("target")
    out = bench.write("extract", bench.path, "--target", f"={name}", to="lower.onnx")
    if name in bench.values:
        demand(are_same(bench.run(out)[name], bench.values[name]), f"computes another {name}")


def extract_cut(bench: Bench) -> None:
    """What follows an inner value gives the model's outputs, and the two parts connected are the model."""
    name = bench.pick("target")
    targets = [word for head in dict.fromkeys(bench.heads) for word in ("--target", f"={head}")]
    out = bench.write("extract", bench.path, "--cut", f"={name}", *targets, to="upper.onnx")
    if name in bench.values:
        outputs = bench.run(out, {name: bench.values[name]})
        demand(
            all(are_same(outputs[head], bench.outputs[head]) for head in bench.heads),
            f"cut at {name} it computes others",
        )


def group_connect(bench: Bench) -> None:
    """The two parts of a cut, connected, are the model again."""
    name, lower, upper = (
        bench.pick("target"),
        bench.existing("lower.onnx"),
        bench.existing("upper.onnx"),
    )
    ends = [
        {value.name for value in onnx.load(path, load_external_data=False).graph.input}
        for path in (lower, upper)
    ]
    if name not in ends[1]:
        raise Missing("the outputs do not need the value")
    words = ["-p", "", "-p", UPPER, "--connect", f"{name}={UPPER}{name}"]
    shared = sorted(ends[0] & ends[1] - bench.weights.keys() - set(bench.heads))
    words += [word for each in shared for word in ("--share-input", f"={each}")]
    out = bench.write("group", lower, upper, *words, to="joined.onnx")
    bench.compare(out, UPPER)


def group_pair(bench: Bench) -> None:
    """Two of the model side by side compute the same."""
    out = bench.write("group", bench.path, bench.path, "-p", "a_", "-p", PREFIX, to="pair.onnx")
    bench.compare(out, "a_", PREFIX)


def draw(bench: Bench) -> None:
    """A drawing in each format, the XML well-formed."""
    for kind in ("html", "svg", "dot", "mermaid"):
        out = bench.folder / f"drawing.{kind}"
        bench.command("draw", bench.path, "--to", kind, "-o", out)
        demand(out.stat().st_size > 0, f"{kind} is empty")
        if kind == "svg":
            ElementTree.parse(out)


def params_list(bench: Bench) -> None:
    """Every initializer is listed with its shape and dtype."""
    listed = {
        a["name"]: a
        for a in json.loads(bench.command("params", "list", bench.path, "--format", "json"))[
            "arrays"
        ]
    }
    for name, tensor in bench.weights.items():
        demand(name in listed, f"does not list {name}")
        plain = tensor.data_type in PLAIN
        demand(
            not plain or listed[name]["shape"] == list(tensor.dims),
            f"{name} has shape {listed[name]['shape']}",
        )
    bench.command("params", "show", bench.path)
    bench.command("params", "stats", bench.path)


def params_diff(bench: Bench) -> None:
    """The weights do not differ from themselves, and do from changed ones."""
    bench.command("params", "diff", bench.path, bench.path)
    bench.command("params", "diff", bench.path, change(bench), no="1 ")


def params_convert(bench: Bench, suffix: str) -> None:
    """A parameter file has every initializer, byte for byte."""
    out = bench.folder / f"weights{suffix}"
    bench.command("params", "convert", bench.path, out)
    bench.command("params", "diff", bench.path, out)
    if suffix == ".npz":
        with np.load(out) as arrays:
            keys = {key.partition(":")[2] or key: key for key in arrays}
            for name, tensor in bench.weights.items():
                key = name if name in arrays else keys.get(name)
                demand(key is not None, f"{name} is not in the file")
                wanted = numpy_helper.to_array(tensor)
                same = (
                    arrays[key].tobytes() == wanted.tobytes() and arrays[key].shape == wanted.shape
                )
                demand(same, f"{name} has other bytes")


def run(bench: Bench) -> None:
    """The outputs are onnxruntime's, and those of inner values too."""
    bench.command("run", bench.path, "--seed", "0", *bench.given)
    out = bench.folder / "all.npz"
    bench.command("run", bench.path, "--seed", "0", "--all", *bench.given, "-o", out)
    if bench.reason:
        return
    with np.load(out) as arrays:
        session = Session(bench.source.data, str(bench.folder), optimize=False)
        # Those that nothing reads are not in the file
        names = [value.name for value in session.inputs]
        feeds = {name: arrays[name] if name in arrays else bench.feeds[name] for name in names}
        for name, value in session.run(feeds).items():
            if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
                demand(name in arrays, f"{name} is not among the results")
                demand(bench.are_near(arrays[name], value), f"{name} differs from onnxruntime's")


def run_target(bench: Bench) -> None:
    """An inner value and the first output, on inputs from files, are onnxruntime's."""
    if not bench.values:
        raise Missing("it did not run")
    words, name = bench.feed(), bench.pick("run")
    if bench.feeds and not words:
        raise Missing("an input is not an array of numbers")
    out = bench.folder / "target.npz"
    bench.command(
        "run",
        bench.path,
        *words,
        "--target",
        f"={name}",
        "--target",
        f"={bench.heads[0]}",
        "-o",
        out,
    )
    with np.load(out) as arrays:
        if not isinstance(bench.outputs[bench.heads[0]], np.ndarray):
            raise Missing(f"{bench.heads[0]} is not an array")
        wanted = bench.run_as_commands_do(name, bench.heads[0])
        for key in (name, bench.heads[0]):
            demand(key in arrays, f"{key} is not among the results")
            demand(bench.are_near(arrays[key], wanted[key]), f"{key} differs from onnxruntime's")


def bind(bench: Bench) -> None:
    """A bound model computes the outputs."""
    if bench.reason:
        raise Missing(bench.reason)
    import graphshare as gs

    net = gs.bind(bench.path)
    try:
        outputs = net({name: bench.feeds[name] for name in net.inputs if name in bench.feeds})
    except gs.GraphshareError as error:
        raise Refusal(str(error)) from error
    wanted = bench.run_as_commands_do(*bench.heads)
    for name in bench.heads:
        demand(bench.are_near(outputs[name], wanted[name]), f"another {name}")


def fold(bench: Bench) -> None:
    """A folded model computes nearly the same."""
    out = bench.write("fold", bench.path, to="folded.onnx")
    if not bench.reason:
        outputs = bench.run(out)
        for name, value in bench.outputs.items():
            demand(bench.are_near(outputs[name], value), f"another {name}")


def pool(bench: Bench) -> None:
    """A pooled model computes what the model does, and embedded again it has the bytes of its tensors."""
    name = bench.path.name
    bench.command("pool", bench.path, "-o", bench.folder / "pooled")
    bench.command(
        "pool", "--embed", bench.folder / "pooled" / name, "-o", bench.folder / "embedded"
    )
    bench.compare(bench.folder / "embedded" / name, "")
    again = onnx.load(bench.folder / "embedded" / name, load_external_data=False)
    left, right = (
        list(onnx.external_data_helper._get_all_tensors(model)) for model in (bench.proto, again)
    )
    demand(
        [(t.name, t.data_type, t.dims) for t in left]
        == [(t.name, t.data_type, t.dims) for t in right],
        "other tensors",
    )
    for one, other in zip(left, right, strict=True):
        if one.raw_data:
            demand(one.raw_data == other.raw_data, f"other bytes of {one.name}")


def refused(*words: str) -> Callable[[Bench], None]:
    """A command that takes no ONNX model says so."""

    def cell(bench: Bench) -> None:
        bench.command(words[0], bench.path, *words[1:])
        raise Wrong("was not refused")

    return cell


WRITTEN = ("renamed.onnx", "weights.onnx", "copy.onnx", "tie.onnx", "mixed.onnx", "upto.onnx", "shared.onnx", "untied.onnx",
           "lower.onnx", "upper.onnx", "joined.onnx", "pair.onnx")  # fmt: skip
CELLS: dict[str, Callable[[Bench], str | None]] = {
    "inspect": inspect,
    "inspect --shape": inspect_sized,
    "check": check,
    "rename and back": rename,
    "rename, weights": rename_weights,
    "duplicate, copy": duplicate_copy,
    "duplicate, tie": duplicate_tie,
    "duplicate, mixed": duplicate_mixed,
    "duplicate --upto": duplicate_upto,
    "verify, copies": lambda bench: verify_branches(bench, "copy.onnx"),
    "verify, ties": lambda bench: verify_branches(bench, "tie.onnx"),
    "share --alias": share_alias,
    "share --detect": share_detect,
    "share --untie": share_untie,
    "rules": rules,
    "extract --target": extract_target,
    "extract --cut": extract_cut,
    "group --connect": group_connect,
    "group, a pair": group_pair,
    "check, written": check_written,
    "run": run,
    "run --target": run_target,
    "bind": bind,
    "verify, itself": verify_same,
    "verify, changed": verify_changed,
    "verify --layers": verify_layers,
    "diff, itself": diff_same,
    "diff, renamed": diff_names,
    "diff, changed": diff_changed,
    "draw": draw,
    "params list": params_list,
    "params diff": params_diff,
    "params convert, npz": lambda bench: params_convert(bench, ".npz"),
    "params convert, safetensors": lambda bench: params_convert(bench, ".safetensors"),
    "fold": fold,
    "pool and back": pool,
    "duplicate, batch": refused("duplicate", "-p", PREFIX, "--mode", "batch", "-o", "batch.onnx"),
    "export": refused("export", "-o", "exported.onnx"),
    "upgrade": refused("upgrade", "-o", "upgraded.onnx"),
    "format": refused("format", "-o", "formatted.onnx"),
    "run --sgd-steps": refused("run", "--sgd-steps", "1"),
}
"""The cells by name, in order: some use files of those before them."""
