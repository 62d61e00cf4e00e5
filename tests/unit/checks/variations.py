"""Inputs of rules beside their examples: other messages, hints and bounds, under names that say what is odd."""

from __future__ import annotations

import json

from graphshare.checks.rule import (
    DENSE_RECORDS,
    Example,
    ExampleRecord,
    NodeObject,
    apply,
    batch_norm,
    branch,
    dense,
    field,
    function,
    initializer,
    model,
    operator,
    relu,
    symbol,
    value,
    variable,
)


def _attributes(**attrs: object) -> str:
    """``dense`` with more attributes of the graph."""
    return dense().replace(
        '{"mxnet_version": ["int", 10901]}', json.dumps({"mxnet_version": ["int", 10901], **attrs})
    )


def _fc(name: str, *inputs: int, **attrs: str) -> NodeObject:
    return operator("FullyConnected", name, *inputs, num_hidden="2", **attrs)


def _sums(*numbers: int) -> str:
    return dense().replace('"heads"', f'"node_row_ptr": {[*numbers]},\n "heads"')


def _counted(op: str, count: int, **attrs: str) -> str:
    """A variable into an operator of which ``node_row_ptr`` counts so many outputs."""
    return symbol(variable("data"), operator(op, "a", 0, **attrs), node_row_ptr=[0, 1, 1 + count])


def _row(count: int, alike: dict[str, str], last: dict[str, str], op: str = "hard_sigmoid") -> str:
    """A chain of so many operators with the same attributes, and one with others."""
    nodes = [operator(op, f"a{i}", i, **(alike if i < count else last)) for i in range(count + 1)]
    return symbol(variable("data"), *nodes)


def _norms(count: int, alike: dict[str, str], *last: dict[str, str]) -> str:
    """A chain of BatchNorms: so many with the same attributes, then others, all with the variables of the first."""
    nodes = [
        variable("data"),
        *(variable(f"bn_{formal}") for formal in ("gamma", "beta", "moving_mean", "moving_var")),
    ]
    for i, attrs in enumerate([alike] * count + [*last]):
        nodes.append(operator("BatchNorm", f"bn{i}", i + 4 if i else 0, 1, 2, 3, 4, **attrs))
    return symbol(*nodes)


def _two_dense(
    *,
    same_node: bool = False,
    bias: str = "w_bias",
    names: tuple[str, str] = ("w_weight", "w_weight"),
) -> str:
    weights = [variable(name) for name in names][: 1 if same_node else 2]
    nodes = [variable("data"), *weights, variable(bias)]
    n = len(nodes)
    return symbol(*nodes, _fc("a", 0, 1, n - 1), _fc("b", n, n - 2, n - 1))


_OWN = field(8, field(1, "own") + field(2, 1))
_CHANNELS = tuple(
    ExampleRecord(key, (3,)) for key in ("arg:bn_gamma", "arg:bn_beta", "aux:bn_moving_mean")
)
_WIDE_DENSE = symbol(
    *(variable(f"input{i}") for i in range(10)),
    operator("Concat", "all", *range(10), num_args="10", dim="0"),
)


def _function(name: str, *parts: bytes) -> bytes:
    """A function in the domain ``own`` from ``a`` to ``r``, of these nodes and fields."""
    return field(
        25, field(1, name) + field(4, "a") + field(5, "r") + b"".join(parts) + field(10, "own")
    )


def _body_node(inputs: str, outputs: str) -> bytes:
    """A Relu in a function, where nodes have another number than in a graph."""
    return field(7, apply("Relu", inputs, outputs)[2:])


_CONSTANT_H = apply(
    "Constant", "", "h", field(5, field(1, "value") + initializer("") + field(20, 4))
)


def _constant(size: int, other: int) -> bytes:
    """Two sums, of a Constant of so many numbers and of an initializer."""
    attribute = field(5, field(1, "value") + initializer("", size=size) + field(20, 4))
    nodes = (
        apply("Constant", "", "c", attribute),
        apply("Add", "x c", "y"),
        apply("Add", "x w", "z"),
    )
    return model(
        *nodes,
        initializer("w", size=other),
        value(11, "x", 1),
        value(12, "y", size),
        value(12, "z", other),
    )


VARIATIONS: dict[str, Example | str | bytes] = {
    # the file
    "a text alone with a line break": '"a\nb"',
    "an unfinished text": dense()[:60],
    "bytes after the end": dense() + "}",
    "a wrong value deep inside": dense().replace("[1, 0, 0]", '[1, "0", 0]'),
    "escapes and no JSON": dense().replace("fc_bias", "\\u00e4")[:-20],
    "escapes of both lengths": dense().replace("fc_bias", "\\u00e4\\b\\u0041\\\\u0041"),
    "an escaped NUL and no JSON": dense().replace("fc_bias", "fc\\u0000bias")[:-20],
    "a raw line break and no JSON": dense().replace("fc_bias", "fc\nbias")[:-20],
    "nothing": "",
    "white space": " \n",
    "bytes that are not UTF-8": dense()
    .replace("fc_bias", "fc_bi@s")
    .encode()
    .replace(b"@", b"\xe4"),
    "single quotes": dense().replace('"', "'"),
    "a missing comma": dense().replace('"name": "fc_bias",', '"name": "fc_bias"'),
    "not a number": dense().replace('["int", 10901]', '["int", NaN]'),
    "a number beyond every range": dense().replace('["int", 10901]', '["int", 1e999]'),
    "halves of characters": dense()
    .replace("fc_bias", "\\ud800")
    .replace('"heads"', '"\\udfff": [{"a": "\\udc00"}], "heads"'),
    "a whole character in halves": dense().replace("fc_bias", "\\ud83d\\ude00_bias"),
    "lists in lists": '{"nodes": ' + "[" * 100_000,
    "one key twice in a file without other objects": '{"nodes": 1, "nodes": 2}',
    "two keys twice": dense().replace(
        '"name": "fc_bias"', '"name": "a", "name": "b", "op": "null", "name": "fc_bias"'
    ),
    "a wrong key of the graph": dense().replace('"arg_nodes"', '"head": 1, "arg_nodes"'),
    "a wrong key of a node": dense().replace('"name": "fc_bias"', '"name": "fc_bias", "input": 1'),
    "a strange key of a node": dense().replace(
        '"name": "fc_bias"', '"name": "fc_bias", "remark_of_mine": 1'
    ),
    "graph attributes at their bounds": _attributes(
        a=["int", -(1 << 31)],
        b=["int", (1 << 31) - 1],
        c=["size_t", 0],
        d=["size_t", (1 << 64) - 1],
        e=["str", ""],
        f=["list_int", [0, -(1 << 31)]],
        g=["list_str", ["a"]],
    ),
    "graph attributes beyond their bounds": _attributes(
        a=["int", -(1 << 31) - 1],
        b=["int", 1 << 31],
        c=["size_t", -1],
        e=["str", 1],
        f=["list_int", [1 << 31]],
        g=["list_str", [1]],
        h=["int", True],
        i=["int", 1.5],
        j=["size_t", "1"],
        k=["list_int", 1],
        l=["list_str", "a"],
    ),
    "graph attributes that are no pairs": _attributes(
        a=["int"], b=["int", 1, 2], c=[1, "int"], d="int", e=["float", 1.0]
    ),
    "settings that are no int": _attributes(is_np_shape=["size_t", 1], other=["size_t", 1]),
    "a version that is a text": dense().replace('["int", 10901]', '["str", "10901"]'),
    "no version": dense().replace(',\n "attrs": {"mxnet_version": ["int", 10901]}', ""),
    "no version, of 2015": symbol(
        {**variable("data"), "param": {}}, {**operator("relu", "a", 0), "param": {}}, version=None
    ),
    "a raw carriage return": dense().replace("fc_bias", "fc\rbias"),
    "a raw NUL": dense().replace("fc_bias", "fc\0bias"),
    "raw line breaks in two texts": dense()
    .replace("fc_bias", "fc\nbi\nas")
    .replace("fc_weight", '\n\\"\n'),
    "an escaped NUL": dense().replace("fc_bias", "fc\\u0000bias"),
    "the escape of a backslash before u0000": dense().replace("fc_bias", "fc\\\\u0000bias"),
    "a NUL after another escape": dense()
    .replace("fc_weight", "fc\\nweight")
    .replace("fc_bias", "fc\\u0000bias"),
    "no codes to suppress": dense().replace(
        '"num_hidden"', '"__graphshare_ignore__": "", "num_hidden"'
    ),
    # the structure
    "a later control dependency": symbol(
        variable("data"),
        {**operator("relu", "a", 0), "control_deps": [2]},
        operator("relu", "b", 0),
        heads=[1],
    ),
    "an earlier control dependency": symbol(
        variable("data"),
        operator("relu", "b", 0),
        {**operator("relu", "a", 0), "control_deps": [1]},
    ),
    "arguments out of order": dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 2, 1]'),
    "an argument twice": dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 1, 2, 2, 2]'),
    "an argument that does not exist": dense().replace(
        '"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 2, 9]'
    ),
    "no arguments": dense().replace('"arg_nodes": [0, 1, 2]', '"arg_nodes": []'),
    "too few sums": _sums(0, 1, 2, 3),
    "too many sums": _sums(0, 1, 2, 3, 4, 5),
    "sums from 1": _sums(1, 2, 3, 4, 5),
    "decreasing sums": _sums(0, 1, 2, 1, 2),
    "a variable without an output": _sums(0, 1, 1, 2, 3),
    "a variable with two outputs": _sums(0, 1, 3, 4, 5),
    **{
        f"{count} of the outputs of Pooling": _counted("Pooling", count, kernel="(2, 2)")
        for count in range(5)
    },
    **{f"{count} outputs of an unknown operator": _counted("Mine", count) for count in range(3)},
    **{f"{count} outputs of relu": _counted("relu", count) for count in (0, 2)},
    "later outputs of Pooling": symbol(
        variable("data"),
        operator("Pooling", "pool", 0, kernel="(2, 2)"),
        heads=[(1, 0), (1, 1), (1, 2)],
    ),
    "later outputs of a split": symbol(
        variable("data"),
        operator("SliceChannel", "s", 0, num_outputs="2"),
        heads=[(1, 1), (1, 2), (0, 1)],
    ),
    "later outputs of an unknown operator": symbol(
        variable("data"), operator("Mine", "m", 0), heads=[(1, 5)]
    ),
    # names
    "an argument three times": symbol(
        *map(variable, "xxx"), operator("add_n", "s", 0, 1, 2, num_args="3")
    ),
    "one output twice": symbol(variable("data"), operator("relu", "a", 0), heads=[1, 1]),
    "a later output again": symbol(
        variable("data"),
        operator("relu", "b", 0),
        operator("relu", "a", 1),
        operator("relu", "a", 2),
        heads=[1, 2, 3],
    ),
    "weights without names": _two_dense(names=("", "")),
    "one weight of two operators": _two_dense(same_node=True),
    "two weights of one name": _two_dense(),
    "an operator without a name": dense().replace('"name": "fc"', '"name": ""'),
    "a variable without a name": dense().replace('"name": "fc_bias"', '"name": ""'),
    "a shared weight and an odd bias": _two_dense(same_node=True, bias="v_bias"),
    "an odd bias of two": _two_dense(names=("a_weight", "b_weight"), bias="c_bias"),
    "no bias": symbol(variable("data"), variable("odd_weight"), _fc("fc", 0, 1, no_bias="True")),
    "odd gamma": batch_norm().replace("bn_gamma", "nb_gamma"),
    "odd statistics": batch_norm(mean="nb_moving_mean"),
    "an odd bias with another ending": dense().replace("fc_bias", "fv_offset"),
    # operators
    "an operator of before 1.0": symbol(
        variable("data"), operator("MultiBoxPrior", "a", 0, sizes="(0.5,)")
    ),
    "an operator like another": symbol(variable("data"), operator("FullyConected", "a", 0)),
    "an operator like none": symbol(variable("data"), operator("zzzzzzzz", "a", 0)),
    "a Custom operator without a type": symbol(variable("data"), operator("Custom", "a", 0)),
    "an attribute like none": dense().replace('"num_hidden"', '"zzzzzzzz": "1", "num_hidden"'),
    "an attribute where none is": symbol(variable("data"), operator("relu", "a", 0, alpha="1")),
    "a hidden key of no input": dense().replace(
        '"num_hidden"', '"weight_lr_mult": "1", "scale_lr_mult": "1", "num_hidden"'
    ),
    "contradicting attributes": symbol(
        variable("data"),
        operator("Pooling", "a", 0, kernel="(2, 2)", stride="(1, 1, 1)", pool_type="maximum"),
    ),
    "two attributes missing": symbol(variable("data"), operator("Convolution", "a", 0)),
    "a reshape to nothing": symbol(variable("data"), operator("Reshape", "a", 0)),
    "too many inputs": symbol(variable("data"), operator("relu", "a", 0, 0)),
    "no inputs wanted": symbol(variable("data"), operator("_zeros", "a", 0, shape="(1,)")),
    "one input of nine": symbol(
        variable("data"),
        operator(
            "RNN", "a", 0, mode="lstm", state_size="2", num_layers="1", use_sequence_length="True"
        ),
    ),
    "one input of ten": _WIDE_DENSE.replace("[8, 0, 0], [9, 0, 0]", "[8, 0, 0]", 1),
    "shapes that contradict each other by the parameters": Example(
        dense(),
        (ExampleRecord("arg:fc_weight", (2, 3)), ExampleRecord("arg:fc_bias", (3,))),
        shapes={"data": (1, 4)},
    ),
    "shapes that contradict each other where no shape is given": symbol(
        operator("_zeros", "a", shape="(2, 3)"),
        operator("_zeros", "b", shape="(4,)"),
        operator("elemwise_add", "c", 0, 1),
    ),
    "shapes that contradict each other by --shape": Example(
        dense(), DENSE_RECORDS, shapes={"data": (1, 4)}
    ),
    "a statistic left out": symbol(
        *map(variable, ("data", "g", "b", "m")), operator("BatchNorm", "bn", 0, 1, 2, 3)
    ),
    "both statistics from operators": symbol(
        *map(variable, ("data", "g", "b")),
        operator("relu", "m", 1),
        operator("BatchNorm", "bn", 0, 1, 2, 3, 3, eps="0.001"),
    ),
    "a shape of nothing like it": Example(dense(), shapes={"zzzzzzzz": (1, 3)}),
    "a shape of no one of ten": Example(_WIDE_DENSE, shapes={"zzzzzzzz": (1, 3)}),
    "a shape without a graph": Example("{}", shapes={"data": (1, 3)}),
    "annotations that can be read": symbol(
        variable(
            "a",
            __init__="zeros",
            lr_mult="2",
            __shape__="(2, 0)",
            __dtype__="0",
            __storage_type__="2",
        ),
        variable(
            "b",
            __init__='["normal", {"sigma": 0.1}]',
            __wd_mult__="1e-3",
            __dtype__="-1",
            __storage_type__="-1",
        ),
        operator("elemwise_add", "c", 0, 1, __force_mirroring__="True"),
    ),
    "annotations that cannot be read": symbol(
        variable(
            "a",
            __init__='["normal"]',
            lr_mult="x",
            __shape__="2x3",
            __dtype__="float32",
            __storage_type__="3",
        ),
        variable(
            "b", __init__='["normal", {}, 1]', __wd_mult__="", __dtype__="-2", __storage_type__="-2"
        ),
        variable("c", __init__="[1, {}]", __dtype__="123"),
        variable("d", __init__='["normal", []]'),
        variable("e", __init__='{"a": {}}'),
        variable("f", __init__="a b"),
        operator("add_n", "g", 0, 1, 2, 3, 4, 5, num_args="6", __force_mirroring__="maybe"),
    ),
    "one of six without an attribute": _row(5, {"alpha": "0.2"}, {}),
    "one of five without an attribute": _row(4, {"alpha": "0.2"}, {}),
    "two without an attribute": _row(6, {"alpha": "0.2"}, {}).replace(
        '"alpha": "0.2"', '"beta": "0.5"', 1
    ),
    "one without a remark": _row(6, {"__remark__": "a"}, {}),
    "one of seven with another eps": _norms(6, {"eps": "0.001"}, {"eps": "0.01"}),
    "two of seven with another eps": _norms(5, {"eps": "0.001"}, {"eps": "0.01"}, {"eps": "0.01"}),
    "two of seven with other eps": _norms(5, {"eps": "0.001"}, {"eps": "0.01"}, {"eps": "0.1"}),
    "one of seven with another axis": _norms(
        6, {"eps": "0.001", "axis": "1"}, {"eps": "0.001", "axis": "2"}
    ),
    "one of seven without eps": _norms(6, {"eps": "0.001"}, {}),
    # parameters
    "a name like a missing one": Example(
        dense(), (DENSE_RECORDS[0], ExampleRecord("arg:fc_bais", (2,)))
    ),
    "records of another graph": Example(
        dense(), (ExampleRecord("arg:zzz", (2,)), ExampleRecord("arg:yyy", (2,)))
    ),
    "one record left out, and its double": Example(dense(), (DENSE_RECORDS[0], DENSE_RECORDS[0])),
    "an empty parameter file": Example(dense(), ()),
    "records without names": Example(dense(), DENSE_RECORDS[:1], named=False),
    "one bare key of two": Example(dense(), (DENSE_RECORDS[0], ExampleRecord("fc_bias", (2,)))),
    "bare keys of no variable": Example(
        dense(), (*DENSE_RECORDS, ExampleRecord("zzz"), ExampleRecord("yyy"))
    ),
    "a shape that nothing tells": Example(
        symbol(variable("data"), variable("w_weight"), operator("broadcast_add", "a", 0, 1)),
        (ExampleRecord("arg:w_weight", (3,)),),
    ),
    "a negative variance of a file that leaves it out": Example(
        symbol(
            *map(variable, ("data", "bn_gamma", "bn_beta")),
            operator("BatchNorm", "bn", 0, 1, 2),
            version=None,
        ),
        (*_CHANNELS, ExampleRecord("aux:bn_moving_var", (3,), value=-1.0)),
    ),
    "a negative mean of a file that leaves it out": Example(
        symbol(
            *map(variable, ("data", "bn_gamma", "bn_beta")),
            operator("BatchNorm", "bn", 0, 1, 2),
            version=None,
        ),
        (
            *_CHANNELS[:2],
            ExampleRecord("aux:bn_moving_mean", (3,), value=-1.0),
            ExampleRecord("aux:bn_moving_var", (3,)),
        ),
    ),
    "shapes that contradict each other twice": Example(
        symbol(
            *map(variable, ("data", "a_weight")),
            operator("FullyConnected", "a", 0, 1, num_hidden="4", no_bias="True"),
            variable("b_weight", __shape__="(2, 5)"),
            _fc("b", 2, 3, no_bias="True"),
        ),
        (ExampleRecord("arg:a_weight", (9, 3)), ExampleRecord("arg:b_weight", (2, 5))),
    ),
    "a shape of another rank": Example(
        dense(), (DENSE_RECORDS[0], ExampleRecord("arg:fc_bias", (2, 1)))
    ),
    "a shape that the graph leaves open": Example(
        dense(), (ExampleRecord("arg:fc_weight", (2, 7)), DENSE_RECORDS[1])
    ),
    "both records of another shape": Example(
        dense(), (ExampleRecord("arg:fc_weight", (3, 7)), ExampleRecord("arg:fc_bias", (3,)))
    ),
    "a record that was never filled, and one of another shape": Example(
        dense(), (ExampleRecord("arg:fc_weight", None), ExampleRecord("arg:fc_bias", (3,)))
    ),
    "a declared dtype": Example(
        dense().replace('"name": "fc_bias"', '"name": "fc_bias", "attrs": {"__dtype__": "0"}'),
        DENSE_RECORDS,
    ),
    "another declared dtype": Example(
        dense().replace('"name": "fc_bias"', '"name": "fc_bias", "attrs": {"__dtype__": "2"}'),
        DENSE_RECORDS,
    ),
    "infinities": Example(
        dense(),
        (
            ExampleRecord("arg:fc_weight", (2, 3), value=float("inf")),
            ExampleRecord("arg:fc_bias", (2,), "float16", float("-inf")),
        ),
    ),
    "a name with a NUL": Example(dense(), (*DENSE_RECORDS, ExampleRecord("arg:a\0", (2,)))),
    "one V2 record under np-shape": Example(_attributes(is_np_shape=["int", 1]), DENSE_RECORDS[:1]),
    "np-shape off in words": Example(_attributes(is_np_shape=["int", 0]), DENSE_RECORDS),
    "a variance just below zero": Example(
        batch_norm(), (*_CHANNELS, ExampleRecord("aux:bn_moving_var", (3,), value=-0.0005))
    ),
    "the least variance below zero that eps makes up for": Example(
        batch_norm(),
        (*_CHANNELS, ExampleRecord("aux:bn_moving_var", (3,), "float64", value=-0.001)),
    ),
    "a negative variance of whole numbers": Example(
        batch_norm(), (*_CHANNELS, ExampleRecord("aux:bn_moving_var", (3,), "int32", value=-1))
    ),
    "a mean below zero": Example(
        batch_norm(),
        (
            *_CHANNELS[:2],
            ExampleRecord("aux:bn_moving_mean", (3,), value=-1.0),
            ExampleRecord("aux:bn_moving_var", (3,)),
        ),
    ),
    # sharing
    "a shared bias and two weights": _two_dense(names=("a_weight", "b_weight"), bias="s_bias"),
    "statistics shared, scale not": symbol(
        *map(
            variable,
            ("x", "y", "a_gamma", "a_beta", "m_moving_mean", "m_moving_var", "b_gamma", "b_beta"),
        ),
        operator("BatchNorm", "a", 0, 2, 3, 4, 5),
        operator("BatchNorm", "b", 1, 6, 7, 4, 5),
        heads=[8, 9],
    ),
    "one statistic shared": symbol(
        *map(
            variable,
            ("x", "y", "g_gamma", "g_beta", "m_moving_mean", "a_moving_var", "b_moving_var"),
        ),
        operator("BatchNorm", "a", 0, 2, 3, 4, 5),
        operator("BatchNorm", "b", 1, 2, 3, 4, 6),
        heads=[7, 8],
    ),
    "half of the scale shared": symbol(
        *map(
            variable,
            (
                "x",
                "y",
                "g_gamma",
                "a_beta",
                "a_moving_mean",
                "a_moving_var",
                "b_beta",
                "b_moving_mean",
                "b_moving_var",
            ),
        ),
        operator("BatchNorm", "a", 0, 2, 3, 4, 5),
        operator("BatchNorm", "b", 1, 2, 6, 7, 8),
        heads=[9, 10],
    ),
    "a suffix of a weight with an initializer": dense().replace(
        '"name": "fc_weight"', '"name": "fc_weight_b", "attrs": {"__init__": "zeros"}'
    ),
    "an odd weight with an initializer": dense().replace(
        '"name": "fc_weight"', '"name": "fc_kernel", "attrs": {"__init__": "zeros"}'
    ),
    "an odd state": batch_norm(mean="bn_average"),
    "a prefix of stn_loc with an initializer": symbol(
        variable("data"),
        variable("a_stn_loc_weight", __init__="zeros"),
        _fc("fc", 0, 1, no_bias="True"),
    ),
    "a prefix of stn_loc": symbol(
        variable("data"), variable("a_stn_loc_weight"), _fc("fc", 0, 1, no_bias="True")
    ),
    "weight and bias swapped": dense().replace(
        "[[0, 0, 0], [1, 0, 0], [2, 0, 0]]", "[[0, 0, 0], [2, 0, 0], [1, 0, 0]]"
    ),
    "a misleading name of two uses": symbol(
        variable("data"),
        variable("a_bias"),
        _fc("a", 0, 1, no_bias="True"),
        _fc("b", 2, 1, no_bias="True"),
    ),
    "hidden keys of an old file that no variable takes": symbol(
        *map(variable, ("data", "fc_weight")),
        _fc(
            "fc",
            0,
            1,
            no_bias="True",
            lr_mult="1",
            weight_wd_mult="2",
            bias_lr_mult="2",
            scale_lr_mult="1",
            odd="1",
        ),
        operator("relu", "a", 2, scale_lr_mult="1"),
        operator("Custom", "b", 3, op_type="mine", scale_lr_mult="1"),
        version=800,
    ),
    "hidden keys of the last file that may have them": symbol(
        *map(variable, ("data", "fc_weight")),
        _fc("fc", 0, 1, no_bias="True", scale_lr_mult="1"),
        version=10000,
    ),
    "a reshape by an old attribute": symbol(
        variable("data"), operator("Reshape", "a", 0, target_shape="(2, 3)")
    ),
    "the id after the last among arguments": dense().replace(
        '"arg_nodes": [0, 1, 2]', '"arg_nodes": [0, 1, 2, 4]'
    ),
    "a cycle of control dependencies": symbol(
        variable("data"),
        {**operator("relu", "a", 0), "control_deps": [2]},
        operator("relu", "b", 1),
    ),
    "an id of a control dependency": symbol(
        variable("data"), {**operator("relu", "a", 0), "control_deps": [2]}
    ),
    "faults in a body": symbol(
        variable("data"),
        {
            **operator("_foreach", "loop", 0, num_args="1"),
            "subgraphs": [
                json.loads(
                    symbol(
                        variable("x"),
                        operator("Relu", "r", 0),
                        operator("relu", "s", (1, 3)),
                        variable("y"),
                        heads=[2],
                    )
                )
            ],
        },
    ),
    "ids in a body": symbol(
        variable("data"),
        {
            **operator("_foreach", "loop", 0, num_args="1"),
            "subgraphs": [
                json.loads(
                    symbol(variable("x"), operator("relu", "r", 7), heads=[1], arg_nodes=[0, 1])
                )
            ],
        },
    ),
    "a key twice in a list": dense().replace(
        '"heads"', '"z": [[{"a": 1, "b": [{"c": 1, "c": 2}]}, {"a": 1}]], "heads"'
    ),
    "a record of a Custom operator": Example(
        symbol(*map(variable, "xw"), operator("Custom", "c", 0, 1, op_type="mine")),
        (ExampleRecord("aux:w"), ExampleRecord("x")),
    ),
    "a record of an unknown operator": Example(
        symbol(*map(variable, "xw"), operator("Mine", "c", 0, 1)),
        (ExampleRecord("aux:w"), ExampleRecord("x")),
    ),
    "a weight under both prefixes, and the other shape is wrong": Example(
        dense(), (*DENSE_RECORDS, ExampleRecord("aux:fc_weight", (3, 3)))
    ),
    "a weight under both prefixes, and its shape is wrong": Example(
        dense(),
        (
            ExampleRecord("arg:fc_weight", (3, 3)),
            DENSE_RECORDS[1],
            ExampleRecord("aux:fc_weight", (2, 3)),
        ),
    ),
    **{
        f"two records of one statistic and one of another shape, in a file of 0.9.{patch}": Example(
            batch_norm().replace("10901", f"90{patch}"),
            (
                *_CHANNELS,
                ExampleRecord("aux:bn_moving_var", (3,)),
                ExampleRecord("arg:bn_moving_var", (4,)),
            ),
        )
        for patch in (4, 5)
    },
    "two records of one statistic": Example(
        batch_norm(),
        (
            *_CHANNELS,
            ExampleRecord("aux:bn_moving_var", (3,)),
            ExampleRecord("arg:bn_moving_var", (3,), value=-1.0),
        ),
    ),
    "two records of one statistic, the other negative": Example(
        batch_norm(),
        (
            *_CHANNELS,
            ExampleRecord("aux:bn_moving_var", (3,), value=-1.0),
            ExampleRecord("arg:bn_moving_var", (3,)),
        ),
    ),
    "a parameter that the file leaves out": Example(
        symbol(
            variable("data"), _fc("fc", 0), operator("SoftmaxOutput", "softmax", 1), version=None
        ),
        DENSE_RECORDS[:1],
    ),
    "a parameter that the file leaves out, of an operator that no output needs": Example(
        symbol(variable("data"), _fc("fc", 0), _fc("idle", 0), version=None, heads=[1]),
        DENSE_RECORDS,
    ),
    "records without a graph": Example("{}", DENSE_RECORDS),
    "a weight as input by its records": Example(
        symbol(*map(variable, ("data", "w")), operator("broadcast_mul", "a", 0, 1)),
        (ExampleRecord("arg:w"),),
    ),
    "a weight as input without names": Example(
        symbol(*map(variable, ("data", "w")), operator("broadcast_mul", "a", 0, 1)),
        (ExampleRecord("arg:w"),),
        named=False,
    ),
    # ONNX models
    "no operator set of a domain": model(
        apply("Mine", "x", "h", domain="own"),
        apply("Relu", "h", "y"),
        value(11, "x", 2),
        value(12, "y", 2),
    ),
    "a function without operator sets": relu(more=_OWN + _function("f", _body_node("a", "r"))),
    "a function with operator sets": relu(
        more=_OWN + _function("f", _body_node("a", "r"), field(9, field(2, 17)))
    ),
    "a function that defines a value twice": relu(
        more=_OWN
        + _function("f", _body_node("a", "r"), _body_node("a", "r"), field(9, field(2, 17)))
    ),
    "a call with more and one left out": model(
        field(
            1,
            b"".join(
                [
                    field(1, "x"),
                    field(1, ""),
                    field(1, "x"),
                    field(2, "y"),
                    field(4, "f"),
                    field(7, "own"),
                ]
            ),
        ),
        value(11, "x", 2),
        value(12, "y", 2),
        more=_OWN + function("f"),
    ),
    "a call with more outputs": model(
        apply("f", "x", "y z", domain="own"),
        value(11, "x", 2),
        value(12, "y", 2),
        value(12, "z", 2),
        more=_OWN + function("f"),
    ),
    "a Constant of 1,024 bytes and as many others": _constant(256, 256),
    "a Constant of 1,024 bytes and a little less": _constant(256, 255),
    "a Constant of 1,024 bytes and more": _constant(256, 400),
    "a Constant of less than 1,024 bytes": _constant(255, 10),
    "a call with more than the function takes": model(
        apply("f", "x x", "y", domain="own"),
        value(11, "x", 2),
        value(12, "y", 2),
        more=_OWN + function("f"),
    ),
    "a call with an input left out": model(
        apply("f", "x", "y", domain="own"),
        value(11, "x", 2),
        value(12, "y", 2),
        more=_OWN + function("f"),
    ),
    "a name of an operator in a body": model(
        apply("Relu", "x", "h", name="a"),
        apply(
            "If",
            "c",
            "y",
            *(
                branch(key, apply("Relu", "x", key, name="b"))
                for key in ("then_branch", "else_branch")
            ),
        ),
        value(11, "x", 2),
        value(11, "c", dtype=9),
        value(12, "y", 2),
    ),
    "types of values that two bodies define, and of one that nothing does": model(
        apply(
            "If",
            "c",
            "y",
            *(
                branch(key, apply("Relu", "x", inner), apply("Relu", inner, key))
                for key, inner in (("then_branch", "a"), ("else_branch", "b"))
            ),
        ),
        *(value(13, name, 2) for name in "abd"),
        value(11, "x", 2),
        value(11, "c", dtype=9),
        value(12, "y", 2),
    ),
    "a Constant of a body with the name of a value around it": model(
        apply("Relu", "x", "h"),
        apply(
            "If",
            "c",
            "y",
            *(
                branch(key, _CONSTANT_H, apply("Relu", "h", key))
                for key in ("then_branch", "else_branch")
            ),
        ),
        value(11, "x", 2),
        value(11, "c", dtype=9),
        value(12, "y", 2),
    ),
    "an unused initializer of two": model(
        apply("Add", "x w", "y"),
        initializer("w"),
        initializer("v"),
        value(11, "x", 2),
        value(12, "y", 2),
    ),
    "external data that is missing": relu(initializer("w", location="none.bin")),
    "five equal weights": model(
        apply("Sum", "x a b c d e f", "y"),
        *(initializer(name, size=256) for name in "abcdef"),
        value(11, "x", 1),
        value(12, "y", 256),
    ),
}
