"""Cases for layers that oneDNN joins, in floats and in integers. Plain data."""

from tests.kernels.rounding import sum_rounding, with_atol


def end(value):
    return {"shape": [1], "value": value}


def whole(shape, dtype):
    return {
        "shape": shape,
        "dtype": dtype,
        "low": -127 if dtype == "int8" else 0,
        "high": 128 if dtype == "int8" else 256,
    }


def positive(shape):
    return {"shape": shape, "shift": 4.0, "scale": 0.5}


def graph(nodes, head):
    found = [
        {"op": op, "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]}
        for op, name, attrs, inputs in nodes
    ]
    variables = [i for i, node in enumerate(found) if node["op"] == "null"]
    return {"nodes": found, "arg_nodes": variables, "node_row_ptr": [], "heads": [[head, 0, 0]]}


RELU = ("Activation", {"act_type": "relu"})
CONV = {"kernel": "(3, 3)", "num_filter": "4", "stride": "(2, 2)", "pad": "(1, 1)"}
BATCH_NORM = {"fix_gamma": "False", "eps": "0.001"}


def conv_graph(conv, bn=None, act=None, total=False, after=None):
    nodes = [("null", "x", {}, ()), ("null", "w", {}, ())]
    inputs = [0, 1]
    if conv.get("no_bias") != "True":
        nodes.append(("null", "b", {}, ()))
        inputs.append(2)
    nodes.append(("Convolution", "conv", conv, inputs))
    last = len(nodes) - 1
    if bn is not None:
        first = len(nodes)
        nodes += [("null", name, {}, ()) for name in ("gamma", "beta", "mean", "var")]
        nodes.append(("BatchNorm", "bn", bn, [last, first, first + 1, first + 2, first + 3]))
        last = len(nodes) - 1
    if act is not None:
        nodes.append((act[0], "act", act[1], [last]))
        last += 1
    if total:
        nodes += [("null", "sum", {}, ()), ("elemwise_add", "add", {}, [last, last + 1])]
        last += 2
    if after is not None:
        nodes.append((after[0], "after", after[1], [last]))
        last += 1
    return graph(nodes, last)


def conv_case(
    conv,
    data,
    other=None,
    bn=None,
    act=None,
    after=None,
    ends=("-1.5", "40.0"),
    bias=None,
    size=(6, 7),
    more=None,
):
    filters, groups = int(conv["num_filter"]), int(conv.get("num_group", "1"))
    kernel = [int(k) for k in conv["kernel"].strip("()").split(",")]
    quantized = data in ("int8", "uint8")
    values = whole([2, 4, *size], data) if quantized else {"shape": [2, 4, *size]}
    inputs = [values, {"shape": [filters, 4 // groups, *kernel]}]
    if conv.get("no_bias") != "True":
        inputs.append(bias or {"shape": [filters]})
    if bn is not None:
        inputs += [
            {"shape": [filters]},
            {"shape": [filters]},
            {"shape": [filters]},
            positive([filters]),
        ]
    if other is not None:
        strides = [int(s) for s in conv.get("stride", "(1, 1)").strip("()").split(",")]
        pads = [int(p) for p in conv.get("pad", "(0, 0)").strip("()").split(",")]
        out = [(size[i] + 2 * pads[i] - kernel[i]) // strides[i] + 1 for i in (0, 1)]
        shape = [2, filters, *out]
        inputs.append(whole(shape, other) if quantized else {"shape": shape})
    if quantized:
        inputs += [end(-2.0 if data == "int8" else 0.0), end(1.5)]
        if other is not None:
            inputs += [end(-9.0 if other == "int8" else 0.0), end(11.0)]
    flags = {
        "with_bn": bn,
        "with_act": act,
        "with_sum": other,
        "with_postsum_act": after,
        "quantized": quantized or None,
    }
    attrs = {name: "true" for name, value in flags.items() if value is not None}
    if quantized and ends:
        attrs.update(min_calib_range=ends[0], max_calib_range=ends[1])
    attrs.update(more or {})
    body = conv_graph(conv, bn, act, other is not None, after)
    return {"op": "_sg_mkldnn_conv", "attrs": attrs, "inputs": inputs, "subgraphs": [body]}


BARE = dict(CONV, no_bias="True")
WIDE = {"kernel": "(1, 1)", "num_filter": "6"}
CASES = [conv_case(CONV, "float32", other, bn, act, after)
         for other, bn, act, after in ((None, None, None, None), (None, BATCH_NORM, RELU, None),
                                       ("float32", BATCH_NORM, None, RELU), ("float32", None, RELU, None))]  # fmt: skip
CASES += [conv_case(conv, data, None, bn, act)
          for data in ("uint8", "int8")
          for conv, bn, act in ((CONV, None, None), (BARE, None, RELU), (CONV, BATCH_NORM, RELU), (BARE, BATCH_NORM, None),
                                (WIDE, {"fix_gamma": "True"}, RELU), (dict(CONV, num_group="2"), None, RELU),
                                (dict(CONV, num_group="4"), BATCH_NORM, RELU),
                                (CONV, None, ("LeakyReLU", {"act_type": "leaky", "slope": "0.2"})),
                                (CONV, None, ("clip", {"a_min": "0", "a_max": "6"})))]  # fmt: skip
CASES += [conv_case(conv, data, other, bn, None, after)
          for data in ("uint8", "int8")
          for other, after in (("int8", RELU), ("uint8", RELU), ("int8", None))
          for conv, bn in ((CONV, BATCH_NORM), (WIDE, None))]  # fmt: skip
CASES += [conv_case(conv, data, None, None, act, ends=None) for data in ("uint8", "int8")
          for conv, act in ((CONV, None), (BARE, RELU))]  # fmt: skip
CASES += [
    conv_case(CONV, "uint8", bias={"shape": [4], "scale": 1e9}),
    conv_case(BARE, "int8", ends=("0.0", "0.0")),
]


def dense_graph(dense, act=None):
    nodes = [
        ("null", name, {}, ())
        for name in ("x", "w", "b")[: 2 if dense.get("no_bias") == "True" else 3]
    ]
    nodes.append(("FullyConnected", "fc", dense, list(range(len(nodes)))))
    if act is not None:
        nodes.append((act[0], "act", act[1], [len(nodes) - 1]))
    return graph(nodes, len(nodes) - 1)


def dense_case(
    dense,
    data,
    act=None,
    ends=("-1.5", "40.0"),
    by_unit=False,
    floats=False,
    shape=(3, 2, 5),
    bias_ends=(-3.0, 2.0),
):
    quantized = data in ("int8", "uint8")
    has_bias = dense.get("no_bias") != "True"
    width = shape[-1] if dense.get("flatten") == "False" else 10
    given = not quantized or by_unit
    inputs = [whole(list(shape), data) if quantized else {"shape": list(shape)}]
    inputs.append({"shape": [4, width]} if given else whole([4, width], "int8"))
    if has_bias:
        inputs.append({"shape": [4]} if given else whole([4], "int8"))
    attrs = {"quantized": "True"} if quantized else {}
    if quantized:
        inputs += [end(-2.0 if data == "int8" else 0.0), end(1.5)]
        if not by_unit:
            inputs += [end(-0.5), end(0.4)] + (
                [end(value) for value in bias_ends] if has_bias else []
            )
        if ends:
            attrs.update(min_calib_range=ends[0], max_calib_range=ends[1])
        if by_unit:
            attrs["channel_wise_quantize"] = "True"
        if floats:
            attrs["enable_float_output"] = "True"
    if act is not None:
        attrs["with_eltwise"] = "True"
    return {
        "op": "_sg_mkldnn_fully_connected",
        "attrs": attrs,
        "inputs": inputs,
        "subgraphs": [dense_graph(dense, act)],
    }


DENSE = {"num_hidden": "4"}
CASES += [
    dense_case(DENSE, "float32"),
    dense_case(DENSE, "float32", RELU),
    dense_case(dict(DENSE, flatten="False"), "float32"),
]
CASES += [dense_case(dense, data, act, by_unit=by_unit)
          for data in ("uint8", "int8")
          for by_unit in (False, True)
          for dense, act in ((DENSE, None), (dict(DENSE, no_bias="True"), RELU), (dict(DENSE, flatten="False"), RELU),
                             (DENSE, ("abs", {})), (DENSE, ("clip", {"a_min": "0", "a_max": "6"})))]  # fmt: skip
CASES += [dense_case(DENSE, data, act, ends=None, by_unit=by_unit, floats=True)
          for data in ("uint8", "int8") for by_unit in (False, True) for act in (None, RELU)]  # fmt: skip
CASES += [dense_case(DENSE, data, ends=None) for data in ("uint8", "int8")]
CASES += [
    dense_case(DENSE, "uint8", bias_ends=(-3e9, 2e9)),
    dense_case(DENSE, "uint8", ends=None, floats=True, bias_ends=(-3e9, 2e9)),
]


def attention_case(op, data, attention=None, ends=("-1.5", "40.0"), floats=False):
    """Three positions, a batch of two, two heads of four."""
    attrs, quantized = {"heads": "2"}, data == "int8"
    shapes = [[3, 2, 24]] + ([[4, 3, 3]] if attention else [])
    kinds = [data, attention]
    inputs = [
        whole(shape, kind) if quantized else {"shape": shape}
        for shape, kind in zip(shapes, kinds)  # noqa: B905
    ]
    if quantized:
        attrs["quantized"] = "True"
        inputs += [end(-2.0), end(1.5)] + ([end(0.0), end(1.0)] if attention else [])
        if ends:
            attrs.update(min_calib_range=ends[0], max_calib_range=ends[1])
        if floats:
            attrs["enable_float_output"] = "True"
    name = "_contrib_interleaved_matmul_selfatt_" + ("valatt" if attention else "qk")
    nodes = [("null", f"x{i}", {}, ()) for i in range(len(shapes))] + [
        (name, "att", {"heads": "2"}, list(range(len(shapes))))
    ]
    return {
        "op": "_sg_mkldnn_" + op,
        "attrs": attrs,
        "inputs": inputs,
        "subgraphs": [graph(nodes, len(shapes))],
    }


CASES += [
    attention_case("selfatt_qk", "int8", **more)
    for more in ({}, {"ends": None}, {"ends": None, "floats": True})
]
CASES += [
    attention_case("selfatt_valatt", "int8", "uint8", **more)
    for more in ({}, {"ends": None}, {"ends": None, "floats": True})
]


def rounding(case):
    """In floats a number is the sum of 36 products at most, a bias, the terms of BatchNorm and an addend."""
    return sum_rounding(40) if case["inputs"][0].get("dtype", "float32") == "float32" else None


CASES = with_atol(CASES, rounding)
