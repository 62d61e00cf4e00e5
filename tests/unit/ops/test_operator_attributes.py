"""Attribute texts: what each kind accepts, what it means, what is refused and why."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.ops.attributes import describe_spellings, read_value
from graphshare.ops.registry import lookup
from graphshare.ops.signature import Parameter, Signature, read_parameters, read_terms

ACCEPTED: list[tuple[str, str, Any]] = [
    *[("bool", text, True) for text in ("True", "true", "TRUE", "1")],
    *[("bool", text, False) for text in ("False", "false", "0")],
    *[("bool?", text, True) for text in (" True", "1 ")],
    *[("bool?", text, None) for text in ("None", "none", " NONE ")],
    *[("int", text, 1) for text in ("1", "+1", "01", " 1", "1 ", "\t1\n")],
    ("int", "-2147483648", -(2**31)),
    ("int", "2147483647", 2**31 - 1),
    ("uint", "-1", 2**32 - 1),
    ("uint", "4294967295", 2**32 - 1),
    ("uint", "-4294967295", 1),
    ("uint64", "-1", 2**64 - 1),
    ("uint64", "18446744073709551615", 2**64 - 1),
    ("int64", "-9223372036854775808", -(2**63)),
    ("int64", "9223372036854775807", 2**63 - 1),
    *[("int?", text, 1) for text in ("1", "1L")],
    *[("int?", text, None) for text in ("None", "None ")],
    *[("float", text, 5.0) for text in ("5", "5.", " 5", "5f", "5F", "50e-1", "+5", "5e", "5e+")],
    *[("float", text, 0.0) for text in ("e1", "+", "-", ".", "f")],
    ("float", ".5", 0.5),
    ("float", "0.1", 0.10000000149011612),
    ("double", "0.1", 0.1),
    *[("float", text, -math.inf) for text in ("-INFinity", "-35e37")],
    ("float?", "1e-50", 0.0),
    ("float?", " 1 ", 1.0),
    ("float?", "3.40282356e38", 2.0**128 - 2.0**104),
    ("double?", "None ", None),
    *[
        ("shape", text, (3, 3))
        for text in (
            "(3, 3)",
            "[3,3]",
            "(3,3,)",
            "( 3 , 3 )",
            "(3L, 3L)",
            "(3,3]",
            " (3,\n3) ",
            "(+3,03)",
        )
    ],
    *[("shape", text, (3,)) for text in ("3", " 3 ", "(3)", "(3,)")],
    *[("shape", text, ()) for text in ("()", "[]", "( )")],
    *[("shape", text, None) for text in ("None", "None ", " None")],
    ("shape?", "None", None),
    ("shape?", "-1", (-1,)),
    ("slice", "(None, 3)", (None, 3)),
    ("slice", "(0,None)", (0, None)),
    ("slice", "2", (2,)),
    ("tuple64", "(4294967296,)", (2**32,)),
    ("tuple32", "(2147483647,)", (2**31 - 1,)),
    ("floats", "(0.5, 1)", (0.5, 1.0)),
    ("floats", "1", (1.0,)),
    ("floats", "None", None),
    ("shapes", "((0, 0), (1, 1))", ((0, 0), (1, 1))),
    ("string", "", ""),
    ("char", "U", "U"),
]
# dmlc computes in the precision of the kind, power of ten by power of ten: these are MXNet's bits,
# not those of the nearest number. Digits before the point wrap at 64 bits, and those after the
# nineteenth behind it do not count.
BITS = [
    ("double", "0.08838834764831845", "0x1.6a09e667f3bcdp-4"),
    ("double", "0.20234193061078698", "0x1.9e657234a9a37p-3"),
    ("double", "3.4103321799188524e+16", "0x1.e4a329760180cp+54"),
    ("double", "1e22", "0x1.0f0cf064dd592p+73"),
    ("double", "1e-50", "0x1.dee7a4ad4b81ep-167"),
    ("double", "2.22507385850720138e-308", "0x1.0000000000001p-1022"),
    ("double", "1.79769313486231570e308", "0x1.ffffffffffffdp+1023"),
    ("double", "17.9769313486231570e307", "0x1.ffffffffffffdp+1023"),
    ("double", "-18e307", "-inf"),
    ("double", "20075327668353167034.99e-5", "0x1.d9faeeed3884fp+43"),
    ("float", "0.0010000000474974513", "0x1.0624de0000000p-10"),
    ("float", "1e-05", "0x1.4f8b580000000p-17"),
    ("float", "1e-12", "0x1.1979980000000p-40"),
    ("float", "1.1920929e-07", "0x1.0000000000000p-23"),
    ("float", "48235762205190.118e-7", "0x1.2668620000000p+22"),
    ("float", "916920615.e25", "0x1.c413aa0000000p+112"),
    ("float", "1.17549434e-38", "0x1.fffffc0000000p-127"),
    ("float", "1.175494351e-38", "0x1.fffffc0000000p-127"),
    ("float", "0.001e-37", "0x1.16c2000000000p-133"),
    ("float", "34.028234e37", "0x1.fffffe0000000p+127"),
    ("float", "34028236e31", "0x1.fffffe0000000p+127"),
    ("float", "34.028235e37", "inf"),
    ("float", "3.402823466e38", "inf"),
    ("float", "-3.4028234663852886e+38", "-inf"),
    ("float", "18446744073709551615", "0x1.0p+64"),
    ("float", "18446744073709551616.5", "0x1.0p-1"),
    ("float", "340282346638528859811704183484516925440.0", "0x0.0p+0"),
    ("float", "1" * 5000, "0x1.c71c72p+62"),
    ("float", "0.12345678901234567890123", "0x1.f9add40000000p-4"),
]
REFUSED = [
    *[("bool", text) for text in ("yes", "T", "2", "1.0", "None", " True", "True ", "")],
    *[("bool?", text) for text in ("2", "yes", "")],
    *[
        ("int", text)
        for text in (
            "4.0",
            "4L",
            "0x4",
            "1e1",
            "",
            "None",
            "2147483648",
            "-2147483649",
            "1_0",
            "9" * 5000,
        )
    ],
    *[("uint", text) for text in ("4294967296", "-4294967296", "1L", "")],
    *[("int64", text) for text in ("9223372036854775808", "-9223372036854775809")],
    ("uint64", "18446744073709551616"),
    *[("int?", text) for text in ("none", " None", "(1)", "2147483648", "1l")],
    *[
        ("float", text)
        for text in (
            "1.5 ",
            "1,5",
            "0x4",
            "None",
            "1e-50",
            "1e50",
            "1.5d",
            "1L",
            "",
            "3.5e38x",
            "35e37",
            "34028240e31",
            "3.4028236e38",
        )
    ],
    *[("float", text) for text in ("1.17e-38", "3.41e38", "0e39", "0e-39")],
    *[
        ("double", text)
        for text in ("1.8e308", "180e306", "2.225073858507201e-308", "0e309", "0e-309")
    ],
    *[("float?", text) for text in ("inf", "nan", "1.5f", " None", "1e50", "5e", "3.40282357e38")],
    *[
        ("shape", text)
        for text in (
            "3,3",
            "(3 3)",
            "(3,3",
            "(3.0,3)",
            "('3',3)",
            "(3l,3)",
            "(None, 3)",
            "",
            "(3,3)x",
            "+1",
            "1L",
        )
    ],
    *[("shape", text) for text in ("Nonex", "None x", "xNone", "(None)")],
    *[
        ("shape", text)
        for text in ("(1,,1)", "(,1)", "((1,1))", "(3L ,3)", "(9223372036854775808,)")
    ],
    *[("shape?", text) for text in ("1L", "1.0", "")],
    *[("tuple32", text) for text in ("(2147483648,)", "2147483648")],
    *[("floats", text) for text in (".5", "+1", "(0.5f,1)", "(1L,1)", "(1,,1)", "(inf,1)")],
    ("ptr", "0x1"),
    ("char", "UL"),
]


@pytest.mark.parametrize(("kind", "text", "value"), ACCEPTED)
def test_accepted(kind: str, text: str, value: Any) -> None:
    assert read_value(kind, text) == value


@pytest.mark.parametrize(("kind", "text", "bits"), BITS)
def test_numbers_have_the_bits_of_mxnet(kind: str, text: str, bits: str) -> None:
    assert read_value(kind, text) == float.fromhex(bits)


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        read_value(kind, text)
    assert describe_spellings(kind)


def test_nan_is_a_float() -> None:
    assert math.isnan(read_value("float", "NaN"))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)).map(tuple))
def test_python_tuples_read_back(value: tuple[int, ...]) -> None:
    assert read_value("shape", str(value)) == value
    assert read_value("shape", str(list(value))) == value


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_python_floats_read_back(value: float) -> None:
    """To the bit from a stream, as optional numbers are read; within the roundings of dmlc's powers
    of ten otherwise.
    """
    assert read_value("double", repr(value)) == pytest.approx(value, rel=1e-14, abs=0)
    assert read_value("double?", repr(-value)) == -value


@given(
    st.text(max_size=12),
    st.sampled_from(
        ["bool", "int", "float", "double?", "shape", "slice", "floats", "shapes", "int?"]
    ),
)
def test_any_text_is_read_or_refused(text: str, kind: str) -> None:
    try:
        read_value(kind, text)
    except ValueError:
        return


def row(name: str) -> Signature:
    found = lookup(name)
    assert found is not None
    return found


def test_defaults_are_filled_in() -> None:
    values, faults = row("Convolution").parse(
        {"kernel": "(3, 3)", "num_filter": "8", "__lr_mult__": "2"}
    )
    assert faults == []
    assert values["kernel"] == (3, 3)
    assert values["workspace"] == 1024
    assert values["no_bias"] is False
    assert values["layout"] is None
    assert "__lr_mult__" not in values
    assert row("Deconvolution").value({}, "no_bias") is True
    assert row("BatchNorm").parse({})[0]["eps"] == 0.0010000000474974513


@pytest.mark.parametrize(
    ("operator", "key", "words"),
    [
        ("Dropout", "p", "from 0 to 1"),
        ("Convolution", "num_filter", "a whole number such as 3, at least 1"),
        ("LeakyReLU", "slope", "it takes a number such as 0.5 or 1e-05"),
    ],
)
def test_a_fault_names_the_bounds_that_there_are(operator: str, key: str, words: str) -> None:
    (message,) = [fault.message for fault in row(operator).parse({key: "x"})[1] if fault.key == key]
    assert message.endswith(words)


def test_every_fault_is_named_at_once() -> None:
    faults = row("Convolution").parse({"num_filter": "x", "foo": "1", "layout": "nchw"})[1]
    messages = [fault.message for fault in faults]
    assert [fault.kind for fault in faults] == ["missing", "unreadable", "unreadable", "unknown"]
    assert [fault.key for fault in faults] == ["kernel", "num_filter", "layout", "foo"]
    assert [fault.value for fault in faults] == [None, "x", "nchw", "1"]
    assert len(faults) == 4
    assert any("missing attribute 'kernel'" in message for message in messages)
    assert any(
        "'num_filter' is 'x'; it takes a whole number such as 3, at least 1" in message
        for message in messages
    )
    assert any(
        "'layout' is 'nchw'; it takes one of NCDHW, NCHW" in message and "or None" in message
        for message in messages
    )
    assert any(
        "unknown attribute 'foo'; Convolution takes kernel, stride" in message
        for message in messages
    )


@pytest.mark.parametrize(
    ("name", "attrs", "sound"),
    [
        ("Convolution", {"kernel": "(3,3)", "num_filter": "1", "stride": "()"}, True),
        ("Convolution", {"kernel": "(3,3)", "num_filter": "1", "stride": "1"}, False),
        ("Convolution", {"kernel": "(3,3)", "num_filter": "1", "pad": "None"}, False),
        ("Convolution", {"kernel": "()", "num_filter": "1"}, False),
        ("Convolution", {"kernel": "(3,3)", "num_filter": "0"}, False),
        ("Convolution_v1", {"kernel": "(3,3)", "num_filter": "1", "stride": "(1,)"}, True),
        ("Deconvolution", {"kernel": "(3,3)", "num_filter": "1", "adj": "(1,)"}, False),
        ("im2col", {"kernel": "(3,3)", "dilate": "(1,)"}, False),
        ("Pooling", {}, False),
        ("Pooling", {"global_pool": "1"}, True),
        ("Pooling", {"kernel": "(2,2)", "stride": "(1,)"}, True),
        ("Pooling", {"kernel": "(2,2)", "stride": "(0,0)"}, False),
        ("ROIPooling", {"pooled_size": "7", "spatial_scale": "1"}, False),
        ("Dropout", {"p": "1.5"}, False),
        ("relu", {"anything": "goes"}, True),
        ("elemwise_add", {"anything": "goes"}, True),
        ("LinearRegressionOutput", {"grad_scale": "abc", "foo": "1"}, True),
        ("Custom", {"op_type": "mine", "name": "x"}, True),
        ("Custom", {}, False),
        ("Activation", {"act_type": "Relu"}, False),
        ("Activation", {"act_type": "relu", "____": "1"}, False),
        ("Activation", {"act_type": "relu", "_____": "1"}, True),
        ("smooth_l1", {"scalar": "1", "is_int": "False"}, True),
        ("Cast", {"dtype": "bool"}, True),
        ("Embedding", {"input_dim": "1", "output_dim": "1", "dtype": "bool"}, False),
        ("_random_normal", {"dtype": "None"}, True),
        ("_sg_mkldnn_conv", {"with_relu": "true"}, True),
        ("_sg_mkldnn_conv", {"with_eltwise": "true"}, False),
        ("squeeze", {"axis": "None"}, True),
        ("squeeze", {"axis": "2147483648"}, False),
    ],
)
def test_what_a_load_refuses(name: str, attrs: dict[str, str], sound: bool) -> None:
    assert (row(name).parse(attrs)[1] == []) is sound


def test_operators_without_parameters_keep_everything() -> None:
    assert row("relu").parameters is None
    assert row("relu").parse({"a": "b"}) == ({"a": "b"}, [])
    assert row("sigmoid").parameter("a") is None


def test_notation() -> None:
    text = "a:shape=!; p:float[0:1]=0.5; n:int[1:]=!; m:{None/x/y}=None; d:{'None'/z}='None'; s:string=a: b"
    parameters = read_parameters(text)
    assert parameters[0] == Parameter("a", "shape", None, True)
    assert parameters[1].bounds == (0.0, 1.0)
    assert parameters[2].bounds == (1.0, None)
    assert (parameters[3].kind, parameters[3].choices) == ("enum?", ("x", "y"))
    assert (parameters[4].kind, parameters[4].choices) == ("enum", ("None", "z"))
    assert parameters[5].default == "a: b"
    (term,) = read_terms("arg*num_args[!a&b=c]")
    assert (term.name, term.counted_by, len(term.conditions)) == ("arg", "num_args", 2)
    with pytest.raises(AssertionError):
        read_parameters("nonsense")


@pytest.mark.parametrize(
    ("operator", "key", "accepted", "refused"),
    [
        ("Dropout", "p", ("0", "1", "0.5"), ("-0.001", "1.001")),
        ("Convolution", "num_filter", ("1", "100000"), ("0",)),
    ],
)
def test_bounds_belong_to_their_range(
    operator: str, key: str, accepted: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    signature = row(operator)
    others = {"kernel": "(1,)"} if operator == "Convolution" else {}
    assert [signature.parse({**others, key: text})[1] for text in accepted] == [[]] * len(accepted)
    assert [
        [fault.key for fault in signature.parse({**others, key: text})[1]] for text in refused
    ] == [[key]] * len(refused)
