"""Cases for recurrent layers. Plain data."""

from tests.kernels.rounding import sum_rounding

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def _case(mode, layers=1, bidirectional=False, projection=None, dtype="float32", steps=4, **attrs):
    n, i, h = 2, 3, 4
    sides, out = (2 if bidirectional else 1), projection or h
    rows = GATES[mode] * h * sides
    size = rows * (i + out + 2) + (layers - 1) * rows * (sides * out + out + 2)
    if projection:
        size += layers * sides * out * h
        attrs["projection_size"] = str(projection)
    shapes = [[steps, n, i], [size], [layers * sides, n, out]] + [[layers * sides, n, h]] * (
        mode == "lstm"
    )
    inputs = [{"shape": shape, "dtype": dtype, "scale": 0.7} for shape in shapes]
    if attrs.get("use_sequence_length") == "True":
        inputs.append({"shape": [n], "dtype": dtype, "values": [2, steps]})
    attrs = {"mode": mode, "state_size": str(h), "num_layers": str(layers), **attrs}
    if bidirectional:
        attrs["bidirectional"] = "True"
    outputs = 1 + (attrs.get("state_outputs") == "True") * (1 + (mode == "lstm"))
    atol = sum_rounding(sides * out + h + 2, 0.5, dtype)  # of a gate: products of numbers about 0.7
    return {"op": "RNN", "attrs": attrs, "inputs": inputs, "outputs": outputs, "atol": atol}


CASES = [
    _case(mode, layers, bidirectional, state_outputs=states)
    for mode in GATES
    for layers, bidirectional, states in (
        (1, False, "False"),
        (2, False, "True"),
        (1, True, "True"),
        (2, True, "True"),
    )
]
CASES += [
    _case("lstm", 1, False, 2, state_outputs="True"),
    _case("lstm", 2, False, 3, state_outputs="True"),
    _case("lstm", 1, True, 2, state_outputs="True"),
    _case("lstm", 2, True, 2, state_outputs="True"),
    _case(
        "lstm",
        lstm_state_clip_min="-0.1",
        lstm_state_clip_max="0.1",
        lstm_state_clip_nan="True",
        state_outputs="True",
    ),
    _case("lstm", use_sequence_length="True", state_outputs="True"),
    _case("gru", use_sequence_length="True", state_outputs="True"),
    _case("gru", 2, p="0.5", state_outputs="True"),
    _case("lstm", dtype="float64", state_outputs="True"),
    _case("gru", dtype="float64", bidirectional=True),
    _case("rnn_tanh", steps=1, state_outputs="True"),
]
