"""The operator tables against MXNet 1.9.1 itself: names, parameters, inputs, outputs, accepted spellings."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphshare.ops.index import ALIASES
from graphshare.ops.registry import foreign_signatures, load_registered_signatures, lookup
from graphshare.ops.signature import Parameter, Signature
from tests.surroundings import oracle_path, run_oracle

PYTHON = oracle_path()
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("oracle_python")]
PROCESS = Path(__file__).with_name("signature_process.py")

# Operators that no file can hold: their parameters are pointers of a running process.
ONLY_IN_A_PROCESS = {"_CachedOp", "_CachedOpThreadSafe", "_CustomFunction", "_NDArray", "_Native"}
# Custom needs a Python class registered under its op_type.
NEEDS_CODE = {"Custom"}
# These are asked with their subgraph, further down.
FUSED = {"_sg_mkldnn_conv", "_sg_mkldnn_fully_connected"}
# Asking for the input names of these reads a structure of another type, an error in 1.9.1.
INPUT_NAMES_FAIL = {"multi_sgd_mom_update", "preloaded_multi_sgd_mom_update"}
# What 1.9.1 takes at load and then fails on: no weights or half a pair (crashes), None for a flag,
# any cell but an LSTM.
LOADED_BUT_BROKEN = [
    ("_contrib_dgl_graph_compact", "num_args", "3"),
    ("_multi_adamw_update", "num_weights", "0"),
    ("_multi_mp_adamw_update", "num_weights", "0"),
    ("softmax", "use_length", "None"),
    *(("_contrib_quantized_rnn", "mode", mode) for mode in ("gru", "rnn_relu", "rnn_tanh")),
]


def ask(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer for each question; ``{"crash": True}`` for one that ended the process."""
    answers: list[dict[str, Any]] = []
    while len(answers) < len(questions):
        rest = json.dumps(questions[len(answers) :])
        done = run_oracle(PYTHON, PROCESS, input=rest, text=True, timeout=300, check=False)
        answers.extend(
            json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")
        )
        if len(answers) < len(questions):
            assert done.returncode != 1, done.stderr[-2000:]
            answers.append({"crash": True})
    return answers


SAMPLES = {
    "bool": "True",
    "int": "1",
    "uint": "1",
    "int64": "1",
    "uint64": "1",
    "float": "0.5",
    "double": "0.5",
    "shape": "(2, 2)",
    "slice": "(0, 1)",
    "tuple64": "(0, 1)",
    "tuple32": "(2, 2)",
    "tuple_uint": "(0, 1)",
    "floats": "(0.5, 0.5)",
    "doubles": "(0.5, 0.5)",
    "shapes": "((0, 0), (1, 1))",
    "string": "x",
    "char": "U",
    "ptr": "x",
}
COUNTS = {
    "num_args": "4",
    "num_outputs": "2",
    "num_arrays": "2",
    "num_weights": "2",
    "num_tensors": "2",
}


def sample(parameter: Parameter) -> str:
    """A text that the parameter takes."""
    if parameter.choices:
        return parameter.choices[0]
    return COUNTS.get(parameter.name) or SAMPLES[parameter.kind.removesuffix("?")]


def base(signature: Signature) -> dict[str, str]:
    """The attributes that the operator cannot do without."""
    attrs = {
        p.name: sample(p)
        for p in signature.parameters or ()
        if p.required or p.name in ("num_weights", "num_tensors")
    }
    if signature.name.endswith(("Pooling", "Pooling_v1", "pooling")) and signature.parameter(
        "global_pool"
    ):
        attrs["kernel"] = "(2, 2)"
    if signature.name == "_contrib_quantized_rnn":
        attrs["mode"] = "lstm"
    return attrs


def variations(parameter: Parameter) -> Iterator[str]:
    """Other texts worth a try, accepted or not."""
    yield from parameter.choices
    kind = parameter.kind
    if kind.endswith("?"):
        yield "None"
    if kind.startswith("bool"):
        yield from ("True", "False")
    elif kind.removesuffix("?") in ("int", "int64", "uint", "uint64"):
        yield from ("0", "1", "3")
        # MXNet takes a negative count for a huge one
        if parameter.name not in (
            *COUNTS,
            "sections",
        ):
            yield from ("-1", "1000")
    elif kind.removesuffix("?") in ("float", "double"):
        yield from ("0", "-1", "1.5")
    elif kind.startswith(("shape", "slice", "tuple")) and kind != "shapes":
        yield from ("()", "(1,)", "(1, 1, 1)", "(1, 1, 1, 1)", "(0, 0)", "(-1, 2)")
        if parameter.name != "indices":  # nor can it split at None
            yield "None"


PRODUCTS = {
    "RNN": {
        "mode": ("lstm", "gru"),
        "state_outputs": ("True", "False"),
        "use_sequence_length": ("True", "False"),
    },
    "_sg_mkldnn_selfatt_qk": {
        "quantized": ("True", "False"),
        "enable_float_output": ("True", "False"),
    },
    "_npi_normal": {"loc": ("None", "1"), "scale": ("None", "1")},
    "Pooling": {
        "kernel": ("()", "(2,)", "(2, 2)", "(2, 2, 2)"),
        "layout": ("None", "NCW", "NHWC", "NCHW", "NCDHW"),
        "pool_type": ("max", "avg"),
        "global_pool": ("True", "False"),
    },
    "Convolution": {
        "kernel": ("(2,)", "(2, 2)", "()", "(1, 1, 1)", "(1, 1, 1, 1)"),
        "stride": ("(1,)", "(1, 1)", "()"),
    },
    "Convolution_v1": {
        "kernel": ("(2,)", "(2, 2)", "()", "(1, 1, 1)"),
        "stride": ("(1,)", "(1, 1)", "()"),
    },
    "Deconvolution": {
        "kernel": ("(2,)", "(2, 2)", "()", "(1, 1, 1)"),
        "target_shape": ("(1,)", "(1, 1)", "()"),
    },
    "_contrib_DeformableConvolution": {
        "kernel": ("(2,)", "(2, 2)", "()"),
        "stride": ("(1,)", "(1, 1)", "()"),
    },
    "im2col": {"kernel": ("(2,)", "(2, 2)", "()"), "stride": ("(1,)", "(1, 1)", "()")},
    "_split_v2": {"sections": ("0", "1", "3"), "indices": ("()", "(0,)", "(0, 2)", "(0, 2, 3)")},
}


def cases() -> list[tuple[Signature, dict[str, str]]]:
    """Every operator as it is, with one attribute varied, and with several where they act together."""
    found = []
    for name, signature in load_registered_signatures().items():
        if name in ONLY_IN_A_PROCESS | NEEDS_CODE or name in FUSED:
            continue
        start = base(signature)
        found.append((signature, start))
        for parameter in signature.parameters or ():
            found.extend(
                (signature, {**start, parameter.name: text})
                for text in dict.fromkeys(variations(parameter))
            )
        product = PRODUCTS.get(name, {})
        found.extend(
            (signature, {**start, **dict(zip(product, texts, strict=True))})
            for texts in itertools.product(*product.values())
            if product
        )
    broken = set(LOADED_BUT_BROKEN)
    return [
        (row, attrs)
        for row, attrs in found
        if not any((row.name, *item) in broken for item in attrs.items())
    ]


def test_names_and_aliases() -> None:
    """Forward operators are those whose name does not speak of ``backward``."""
    names = ask([{"registry": True}])[0]
    canonical = {real for real in names.values() if "backward" not in real}
    assert canonical == set(load_registered_signatures())
    assert {name: real for name, real in names.items() if name != real} == dict(ALIASES)
    assert not set(foreign_signatures()) & set(names)


def test_inputs_outputs_and_faults() -> None:
    """Load every case; compare acceptance, totals, visible outputs, labels and auxiliary slots."""
    tried = cases()
    counts = [len(signature.formal_inputs(attrs)) for signature, attrs in tried]
    answers = ask(
        [
            {"op": signature.name, "attrs": attrs, "inputs": count, "version": 10901}
            for (signature, attrs), count in zip(tried, counts, strict=True)
        ]
    )
    wrong = []
    for (signature, attrs), count, real in zip(tried, counts, answers, strict=True):
        ours = _ours(signature, attrs, count)
        theirs = _theirs(signature, real)
        if ours != theirs:
            wrong.append(
                f"{signature.name} {attrs}\n   ours   {ours}\n   MXNet  {theirs} {real.get('error', '')[:200]}"
            )
    assert not wrong, f"{len(wrong)} of {len(tried)}\n" + "\n".join(wrong[:400])


def _ours(signature: Signature, attrs: dict[str, str], count: int) -> Any:
    if signature.parse(attrs)[1]:
        return "refused"
    outputs = signature.outputs(attrs)
    slots = signature.auxiliary_slots(attrs, count)
    if outputs is None:
        return None
    labels = tuple(outputs.label(i) for i in range(outputs.total))
    return (outputs.total, outputs.visible, labels, tuple(f"v{slot}" for slot in slots))


def _theirs(signature: Signature, real: dict[str, Any]) -> Any:
    if "labels" not in real:
        return "refused" if "error" in real else real
    labels = tuple(label.removeprefix("n_") for label in real["labels"])
    return real["total"], real["visible"], labels, tuple(real["auxiliary"])


def test_input_names_as_the_upgrade_invents_them() -> None:
    """A file without a version and without inputs gets variables called after the formal inputs."""
    tried = [
        case
        for case in cases()
        if not case[0].parse(case[1])[1] and case[0].name not in INPUT_NAMES_FAIL
    ]
    answers = ask(
        [
            {"op": signature.name, "attrs": attrs, "inputs": 0, "version": None}
            for signature, attrs in tried
        ]
    )
    wrong = []
    for (signature, attrs), real in zip(tried, answers, strict=True):
        names = signature.input_names(attrs) or ()
        ours = (
            [f"n_{name}" for name in names],
            {f"n_{names[i]}": t for i, t in signature.initializers.items() if i < len(names)},
        )
        theirs = real.get("inputs"), real.get("initializers")
        if ours != theirs:
            wrong.append(
                f"{signature.name} {attrs}\n   ours   {ours}\n   MXNet  {theirs} {real.get('error', '')[:200]}"
            )
    assert not wrong, f"{len(wrong)} of {len(tried)}\n" + "\n".join(wrong[:400])


def convolution_body(no_bias: str, with_bn: bool, with_sum: bool) -> dict[str, Any]:
    """A subgraph of a Convolution, a BatchNorm and a sum behind it if asked for."""
    names = ["data0", "weight0", *([] if no_bias == "True" else ["bias0"])]
    attrs = {"kernel": "(1, 1)", "num_filter": "1", "no_bias": no_bias}
    nodes: list[dict[str, Any]] = [{"op": "null", "name": name, "inputs": []} for name in names]
    nodes.append(
        {
            "op": "Convolution",
            "name": "c",
            "attrs": attrs,
            "inputs": [[i, 0, 0] for i in range(len(names))],
        }
    )
    if with_bn:
        start = len(nodes)
        nodes += [{"op": "null", "name": name, "inputs": []} for name in ("g", "b", "m", "v")]
        inputs = [[start - 1, 0, 0], *([start + i, 0, 0] for i in range(4))]
        nodes.append({"op": "BatchNorm", "name": "bn", "inputs": inputs})
    if with_sum:
        last = len(nodes) - 1
        nodes.append({"op": "null", "name": "s", "inputs": []})
        nodes.append(
            {"op": "elemwise_add", "name": "add", "inputs": [[last, 0, 0], [last + 1, 0, 0]]}
        )
    arguments = [i for i, node in enumerate(nodes) if node["op"] == "null"]
    return {"nodes": nodes, "arg_nodes": arguments, "heads": [[len(nodes) - 1, 0, 0]]}


def dense_body(no_bias: str) -> dict[str, Any]:
    """A subgraph of a FullyConnected."""
    names = ["x", "w", *([] if no_bias == "True" else ["b"])]
    nodes: list[dict[str, Any]] = [{"op": "null", "name": name, "inputs": []} for name in names]
    attrs = {"num_hidden": "1", "no_bias": no_bias}
    nodes.append(
        {
            "op": "FullyConnected",
            "name": "f",
            "attrs": attrs,
            "inputs": [[i, 0, 0] for i in range(len(names))],
        }
    )
    return {"nodes": nodes, "arg_nodes": list(range(len(names))), "heads": [[len(names), 0, 0]]}


def as_graph(body: dict[str, Any]) -> Any:
    """The subgraph as graphshare's own objects look to the tables."""
    nodes: list[Any] = []
    for raw in body["nodes"]:
        entries = tuple(
            SimpleNamespace(node=nodes[i], index=j, version=0) for i, j, _ in raw["inputs"]
        )
        op = "" if raw["op"] == "null" else raw["op"]
        node = SimpleNamespace(
            op=op, name=raw["name"], attrs=raw.get("attrs", {}), inputs=entries, is_variable=not op
        )
        nodes.append(node)
    heads = tuple(SimpleNamespace(node=nodes[i], index=j, version=0) for i, j, _ in body["heads"])
    return SimpleNamespace(nodes=tuple(nodes), heads=heads)


def fused_cases() -> list[tuple[Signature, dict[str, str], dict[str, Any]]]:
    """Every combination of the flags that decide inputs, with and without a bias, under new and old keys."""
    found = []
    for flags in itertools.product(("True", "False"), repeat=3):
        attrs = dict(zip(("with_bn", "with_sum", "quantized"), flags, strict=True))
        for no_bias in ("True", "False"):
            for more in (
                {},
                {"with_relu": "true"},
                {"with_postsum_relu": "true", "with_postsum_act": "False"},
            ):
                body = convolution_body(
                    no_bias, attrs["with_bn"] == "True", attrs["with_sum"] == "True"
                )
                found.append((lookup_row("_sg_mkldnn_conv"), {**attrs, **more}, body))
    for flags in itertools.product(("True", "False"), repeat=3):
        attrs = dict(zip(("quantized", "enable_float_output", "with_relu"), flags, strict=True))
        for more in ({}, {"channel_wise_quantize": "True"}, {"channel_wise_quantize": "False"}):
            bodies = map(dense_body, ("True", "False"))
            found += [
                (lookup_row("_sg_mkldnn_fully_connected"), {**attrs, **more}, body)
                for body in bodies
            ]
    return found


def test_fused_operators() -> None:
    """Names, auxiliary slots, outputs and rewritten keys of what oneDNN fuses, by their subgraphs."""
    tried = fused_cases()
    counts = [
        len(row.formal_inputs(attrs, subgraphs=[as_graph(body)])) for row, attrs, body in tried
    ]
    rows = [
        {"op": row.name, "attrs": attrs, "inputs": count, "version": 10901, "subgraphs": [body]}
        for (row, attrs, body), count in zip(tried, counts, strict=True)
    ]
    bare = [{**question, "inputs": 0, "version": None} for question in rows]
    wrong = []
    for (row, attrs, body), count, full, named in zip(
        tried, counts, ask(rows), ask(bare), strict=True
    ):
        graphs = [as_graph(body)]
        ours = _ours_fused(row, attrs, count, graphs)
        theirs = _theirs(row, full), named.get("inputs"), full.get("attrs")
        if ours != theirs:
            wrong.append(f"{row.name} {attrs}\n   ours   {ours}\n   MXNet  {theirs} {full} {named}")
    assert not wrong, f"{len(wrong)} of {len(tried)}\n" + "\n".join(wrong)


def _ours_fused(row: Signature, attrs: dict[str, str], count: int, graphs: list[Any]) -> Any:
    outputs = row.outputs(attrs)
    assert outputs is not None
    slots = tuple(f"v{slot}" for slot in row.auxiliary_slots(attrs, count, subgraphs=graphs))
    names = [f"n_{name}" for name in row.input_names(attrs, count, subgraphs=graphs) or ()]
    return (*outputs, slots), names, row.current_attributes(attrs)


KIND_OF = {
    "int": "int",
    "int (non-negative)": "uint",
    "long": "int64",
    "long (non-negative)": "uint64",
    "boolean": "bool",
    "boolean or None": "bool?",
    "float": "float",
    "float or None": "float?",
    "double": "double",
    "double or None": "double?",
    "int or None": "int?",
    "Shape(tuple)": "shape",
    "Shape or None": "shape?",
    "string": "string",
    "ptr": "ptr",
    "tuple of <float>": "floats",
    "tuple of <double>": "doubles",
    "tuple of <long>": "tuple64",
    "tuple of <int (non-negative)>": "tuple_uint",
    "tuple of <Shape(tuple)>": "shapes",
}
# The parser calls these Shape(tuple) as well but reads None inside; or it calls the kind nothing at all.
KIND_EXCEPTIONS = {
    **{
        (name, key): "slice"
        for name in ("slice", "_slice_assign", "_slice_assign_scalar")
        for key in ("begin", "end", "step")
    },
    **{
        (name, "M"): "int64?"
        for name in ("_npi_blackman", "_npi_eye", "_npi_hamming", "_npi_hanning")
    },
    **{(name, "UPLO"): "char" for name in ("_npi_eigh", "_npi_eigvalsh")},
    ("_histogram", "range"): "doubles?",
    ("_npi_choice", "a"): "int64?",
    ("_npi_choice", "size"): "shape?",
    ("_npi_multinomial", "pvals"): "doubles?",
}
LINE = re.compile(r"^(\w+) : (\{[^}]*\}|.*?)(?:, ?required|, ?optional, default=(.*)|)$")


def kind_of(name: str, key: str, kind: str) -> str:
    """The list does not tell members of 32 bits from those of 64; the test of every parameter does."""
    ours = next(
        (p.kind for p in load_registered_signatures()[name].parameters or () if p.name == key), ""
    )
    return ours if ours.startswith("tuple32") and kind.startswith("Shape") else KIND_OF[kind]


def declared(name: str, text: str) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    """Name, kind, default and choices of every parameter in the parser's own list."""
    found = []
    body = text.split("----------------\n", 1)[1].rsplit(", in operator", 1)[0]
    for line in body.splitlines():
        match = LINE.match(line)
        if match is None or not re.search(r"required$|optional, default=", line):
            continue
        key, kind, default = match.groups()
        choices: tuple[str, ...] = ()
        if kind.startswith("{"):
            listed = kind[1:-1].split(", ")
            choices = tuple(choice.strip("'") for choice in listed if choice != "None")
            kind = "enum?" if "None" in listed else "enum"
        else:
            kind = KIND_EXCEPTIONS.get((name, key)) or kind_of(name, key, kind)
        default = default if default is None else default.strip("'")
        if kind.startswith("bool"):
            default = {"0": "False", "1": "True"}.get(str(default), default)
        found.append((key, kind, default, choices))
    return found


def test_parameters_as_the_parser_lists_them() -> None:
    """An unknown key makes the parser list what it knows; operators without a parser keep the key."""
    silent = {
        name for name, row in load_registered_signatures().items() if not row.checks_attributes
    }
    names = [name for name in load_registered_signatures() if name not in silent]
    answers = ask(
        [
            {"op": name, "attrs": {"not_a_parameter": "1"}, "version": 10901, "accept_only": True}
            for name in names
        ]
    )
    wrong = []
    for name, real in zip(names, answers, strict=True):
        parameters = load_registered_signatures()[name].parameters
        if "Possible Arguments" not in real.get("error", ""):
            theirs = None if parameters is None or name in ASKED_OTHERWISE else real
        else:
            theirs = declared(name, real["error"])
        if theirs is None and name in ASKED_OTHERWISE:
            continue
        ours = (
            parameters
            if parameters is None
            else [(p.name, p.kind, p.default, p.choices) for p in parameters]
        )
        if ours != theirs:
            wrong.append(f"{name}\n   ours   {ours}\n   MXNet  {theirs}")
    assert not wrong, f"{len(wrong)} of {len(names)}\n" + "\n".join(wrong)


# Their parsers look at other things before they list anything.
ASKED_OTHERWISE = {"_contrib_quantized_rnn", "_CustomFunction", *FUSED}


def words(text: str) -> tuple[str, ...]:
    """The parts of a text between blanks."""
    return tuple(text.split())


BLANK = ("", " ", "x", "None", "none", "NONE", " None", "None ", "Nones")
# Numbers and tuples parted by blanks; those with blanks inside follow.
NUMBERS = words(
    "0 1 -1 +1 01 1L 1l 1_0 1, 4.0 1. .5 . 5e 1e1 1E-5 1e-05 1e+ e1 + - -.5 +.5 0x4 1e-50 1e50 "
    "-1e50 1e-400 1e400 3.4e38 "
    "3.5e38 1e38 1e-38 1.2e-38 1e308 1.8e308 inf -inf +inf INF infinity Infinit nan NaN -nan nan(1) 1.5f 1.5F f 1.5d "
    "1.5ff --1 2147483647 2147483648 -2147483648 -2147483649 4294967295 4294967296 -4294967295 -4294967296 "
    "9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 "
    "18446744073709551616 1e5x 0.1 123456789123456789 "
    "3.4028235e38 3.40282356e38 3.40282357e38 34.028235e37 34028236e31 34028240e31"
)
BLANK_NUMBERS = (" 1", "1 ", "\t1\n", "1 2", "1\v", "1\f", "\v1", "\f1", "1.5 ", " 1.5")
BOOLEANS = (
    *words("True true TRUE tRuE False false FALSE yes T 2 1.0 nOnE True)"),
    " True",
    "True ",
    "\vTrue",
)
TUPLES = words(
    "(3,3) [3,3] (3,3,) (3L,3) (3,3] [3,3) () [] 3,3 (3,3 3,3) (3.0,3) (.5,1) ('3',3) (3l,3) (None,3) (3,None) (None) "
    "None, (1,) (1) (1,,1) (,1) (,) ((1,1)) ((1,1),(2,2)) [[1,1],[2,2]] (1,1)x (+1,1) (01,1) (-1,1) "
    "(9223372036854775807,1) (9223372036854775808,1) (2147483648,1) (4294967296,1) (3LL,3) -1L "
    "(1e1,1) (0.5f,1) (inf,1) "
    "(1;1) (1,1)) (NoneL,3) (1e400,1) (1e50,1) -x ((2147483648,1),(1,1))"
)
BLANK_TUPLES = (
    "(3, 3)",
    "( 3 , 3 )",
    " (3,3)",
    "(3,3) ",
    "(3L, 3L)",
    "( )",
    "(3 3)",
    "(3, None )",
    "(1,\n1)",
    "(3L ,3)",
    "(3 L,3)",
)
BLANK_TUPLES += ("( None,3)", "(1, )", "[1 ,]", "\v(1,)", "(\v1,)", "(1\v,)")


# One operator for each kind, and the attribute to try the spellings on.
TRIED = {
    "bool": ("LayerNorm", "output_mean_var"),
    "bool?": ("Dropout", "cudnn_off"),
    "int": ("LayerNorm", "axis"),
    "uint": ("Convolution", "num_group"),
    "int64": ("_eye", "N"),
    "uint64": ("Convolution", "workspace"),
    "int?": ("pick", "axis"),
    "int64?": ("_npi_eye", "M"),
    "float": ("LeakyReLU", "slope"),
    "double": ("BatchNorm", "eps"),
    "float?": ("_contrib_quantize_v2", "min_calib_range"),
    "double?": ("softmax", "temperature"),
    "shape": ("transpose", "axes"),
    "shape?": ("_npi_normal", "size"),
    "tuple32?": ("squeeze", "axis"),
    "tuple32": ("_image_resize", "size"),
    "slice": ("slice", "begin"),
    "tuple64": ("_foreach", "in_data_locs"),
    "floats": ("_contrib_MultiBoxPrior", "sizes"),
    "doubles": ("_cvcopyMakeBorder", "values"),
    "doubles?": ("_npi_multinomial", "pvals"),
    "shapes": ("_npi_pad", "pad_width"),
    "char": ("_npi_eigh", "UPLO"),
    "string": ("_arange", "ctx"),
    "enum": ("Activation", "act_type"),
    "enum?": ("log_softmax", "dtype"),
}
OTHERS = {
    "histogram": ("_histogram", "range"),
    "choice a": ("_npi_choice", "a"),
    "choice size": ("_npi_choice", "size"),
}
ENUMS = (
    "relu",
    "Relu",
    "relu ",
    " relu",
    "float32",
    "Float32",
    "0",
    "<class 'numpy.float32'>",
    "None",
    "'None'",
)
KEYS = ("____", "__x__", "__a", "a__", "_a_", "___", "_____", "__ctx_group__")


def test_spellings_of_every_kind() -> None:
    """Accepted here if and only if MXNet accepts it."""
    texts = [
        *dict.fromkeys(
            (*NUMBERS, *BLANK_NUMBERS, *BLANK, *BOOLEANS, *TUPLES, *BLANK_TUPLES, *ENUMS)
        )
    ]
    texts.sort(key=lambda text: "1e" in text or "e38" in text or "e308" in text)
    tried = [
        (lookup_row(name), key, text)
        for text in texts
        for name, key in (*TRIED.values(), *OTHERS.values())
    ]
    tried += [(lookup_row("Activation"), key, "1") for key in KEYS]
    questions = [
        {"op": row.name, "attrs": {**base(row), key: text}, "version": 10901, "accept_only": True}
        for row, key, text in tried
    ]
    wrong = []
    for (row, key, text), question, real in zip(tried, questions, ask(questions), strict=True):
        faults = row.parse(question["attrs"])[1]
        if bool(faults) != ("error" in real) or "crash" in real:
            kind = getattr(row.parameter(key), "kind", "")
            wrong.append(
                f"{row.name} {key} ({kind}) {text!r}: ours {faults} MXNet {str(real)[:200]}"
            )
    assert not wrong, f"{len(wrong)} of {len(tried)}\n" + "\n".join(wrong)


TELLING = (
    "2147483648",
    "(2147483648, 1)",
    "(None, 3)",
    "None",
    "-1",
    "1L",
    "1.5",
    "True",
    "(0.5, 1)",
    "",
    "(1, 1)",
    "x",
)


def test_every_parameter_is_of_its_kind() -> None:
    """Texts that tell the kinds apart, on every parameter of every operator."""
    wordy = {
        "num_args",
        "num_outputs",
        "num_arrays",
        "num_weights",
        "num_tensors",
        "sections",
        "indices",
    }
    tried = [
        (row, parameter, text)
        for row in load_registered_signatures().values()
        if row.checks_attributes and row.name not in (ONLY_IN_A_PROCESS | FUSED | NEEDS_CODE)
        for parameter in row.parameters or ()
        for text in TELLING
        # Counts that exhaust the memory
        if not (parameter.name in wordy and text in ("2147483648", "-1", "None"))
    ]
    questions = [
        {
            "op": row.name,
            "attrs": {**base(row), p.name: text},
            "version": 10901,
            "accept_only": True,
        }
        for row, p, text in tried
    ]
    wrong = []
    for (row, parameter, text), question, real in zip(
        tried, questions, ask(questions), strict=True
    ):
        faults = row.parse(question["attrs"])[1]
        if bool(faults) != ("error" in real) or "crash" in real:
            wrong.append(
                f"{row.name} {parameter.name} ({parameter.kind}) {text!r}: ours {faults} MXNet {str(real)[:200]}"
            )
    assert not wrong, f"{len(wrong)} of {len(tried)}\n" + "\n".join(wrong)


def lookup_row(name: str) -> Signature:
    row = lookup(name)
    assert row is not None
    return row
