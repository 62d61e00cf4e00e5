"""Cases for the operators on padded sequences."""


def case(op, attrs, shape, lengths=None, dtype="float32", lengths_type="float32"):
    inputs = [{"shape": shape, "dtype": dtype, "scale": 5.0}]
    if lengths is not None:
        inputs.append({"shape": [len(lengths)], "dtype": lengths_type, "values": lengths})
        attrs = dict(attrs, use_sequence_length="True")
    return {"op": op, "attrs": attrs, "inputs": inputs}


OPS = ("SequenceMask", "SequenceLast", "SequenceReverse")
CASES = [
    case(op, {}, shape, None, dtype)
    for op in OPS
    for shape in ([3, 2], [3, 2, 4])
    for dtype in ("float32", "int32")
]
CASES += [
    case(op, {}, shape, [1, 3], dtype, lengths_type)
    for op in OPS
    for shape in ([3, 2], [3, 2, 4], [4, 2, 2, 3])
    for dtype, lengths_type in (
        ("float32", "float32"),
        ("float64", "float64"),
        ("float16", "float16"),
        ("float32", "int32"),
        ("int32", "float32"),
    )
]
CASES += [
    case(op, {"axis": "1"}, [3, 4, 2], lengths) for op in OPS[:2] for lengths in (None, [1, 4, 2])
]
CASES += [
    case("SequenceMask", {"value": "-1.5"}, [3, 2, 2], [1, 2], dtype)
    for dtype in ("float32", "int32")
]
CASES += [
    case("SequenceMask", {"value": "7", "axis": axis}, [3, 3, 2], [0, 9, 2]) for axis in ("0", "1")
]
