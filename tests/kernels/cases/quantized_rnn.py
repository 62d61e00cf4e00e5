"""Cases for LSTM layers of eight-bit integers. Plain data. With VNNI oneDNN finds no way to lay the weights out."""

from tests.kernels.rounding import sum_rounding


def _case(
    inputs,
    hidden,
    layers=1,
    bidirectional=False,
    steps=3,
    batch=2,
    scale=127.5,
    shift=128.0,
    weight=0.5,
    **attrs,
):
    sides = 2 if bidirectional else 1
    size = sum(
        sides * 4 * hidden * ((hidden * sides if layer else inputs) + hidden + 2)
        for layer in range(layers)
    )
    state = [layers * sides, batch, hidden]
    attrs = {
        "mode": "lstm",
        "state_size": str(hidden),
        "num_layers": str(layers),
        "state_outputs": "True",
        **attrs,
    }
    if bidirectional:
        attrs["bidirectional"] = "True"
    return {
        "op": "_contrib_quantized_rnn",
        "attrs": attrs,
        "inputs": [
            {"shape": [steps, batch, inputs], "dtype": "uint8", "low": 0, "high": 256},
            {"shape": [size], "scale": weight},
            {"shape": state, "scale": 0.5},
            {"shape": state},
            {"shape": [1], "value": scale},
            {"shape": [1], "value": shift},
        ],
        "outputs": 1 if attrs["state_outputs"] == "False" else 3,
        "instructions": "AVX2",
        "atol": sum_rounding(2),  # a cell state is the sum of two products, which may cancel
    }


CASES = [
    _case(inputs, hidden, layers, bidirectional)
    for bidirectional in (False, True)
    for inputs, hidden in ((4, 4), (3, 5), (7, 6))
    for layers in (1, 2, 3)
]
CASES += [
    _case(16, 16, steps=1, state_outputs="False"),
    _case(33, 17, steps=4, scale=100.3, shift=97.25),
    _case(6, 4, 3, True, scale=3.25, shift=0.0),
    _case(12, 10, 2, scale=20.0, shift=-5.5),
    _case(20, 12, batch=9, weight=0.01),
    _case(4, 4, weight=0.0),
]
