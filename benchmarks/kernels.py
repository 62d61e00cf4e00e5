"""How long the convolutions of ResNet-50 take, layer by layer and in sum, and the whole network,
against MXNet's executor.

    PYTHON benchmarks/kernels.py [--oracle ORACLE_PYTHON] [--repeat 10] [--threads 2]

One image of 224x224, float32. A layer's time is the best of ``--repeat``; its share of the network
is that times how often it occurs. The whole network is every layer, one kernel after the other,
with what nobody needs any more written over. With ``--oracle``, MXNet times each layer on its own
and the network in one executor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# (times, channels, size, filters, kernel, stride)
LAYERS = [
    (1, 3, 224, 64, 7, 2),
    (1, 64, 56, 64, 1, 1),
    (3, 64, 56, 64, 3, 1),
    (4, 64, 56, 256, 1, 1),
    (2, 256, 56, 64, 1, 1),
    (1, 256, 56, 128, 1, 2),
    (1, 256, 56, 512, 1, 2),
    (4, 128, 28, 128, 3, 1),
    (4, 128, 28, 512, 1, 1),
    (3, 512, 28, 128, 1, 1),
    (1, 512, 28, 256, 1, 2),
    (1, 512, 28, 1024, 1, 2),
    (6, 256, 14, 256, 3, 1),
    (6, 256, 14, 1024, 1, 1),
    (5, 1024, 14, 256, 1, 1),
    (1, 1024, 14, 512, 1, 2),
    (1, 1024, 14, 2048, 1, 2),
    (3, 512, 7, 512, 3, 1),
    (3, 512, 7, 2048, 1, 1),
    (2, 2048, 7, 512, 1, 1),
]


def attributes(layer: tuple[int, ...]) -> dict[str, str]:
    """The texts of a layer's attributes."""
    _, _, _, filters, kernel, stride = layer
    texts = {
        key: f"({n}, {n})"
        for key, n in (("kernel", kernel), ("stride", stride), ("pad", kernel // 2))
    }
    return {**texts, "num_filter": str(filters), "no_bias": "True"}


def best(call: Any, repeat: int) -> float:
    """Milliseconds of the quickest of ``repeat`` calls."""
    call()
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times) * 1e3


def ours(repeat: int) -> list[float]:
    """Each layer by the kernel of this package."""
    import numpy as np

    from graphshare.ops.kernel import Context
    from graphshare.ops.registry import find_kernel, lookup

    kernel, signature = find_kernel("Convolution"), lookup("Convolution")
    assert kernel is not None
    assert signature is not None
    found = []
    for layer in LAYERS:
        _, channels, size, filters, extent, _ = layer
        attrs, _ = signature.parse(attributes(layer))
        x = np.random.default_rng(0).standard_normal((1, channels, size, size), dtype=np.float32)
        weight = np.random.default_rng(1).standard_normal(
            (filters, channels, extent, extent), dtype=np.float32
        )
        found.append(
            best(lambda a=attrs, x=x, w=weight: kernel.forward(Context(), a, x, w), repeat)
        )
    return found


def theirs(repeat: int) -> list[float]:
    """Each layer by MXNet; runs in the oracle's Python."""
    import mxnet as mx  # type: ignore[import-not-found,unused-ignore]

    found = []
    for layer in LAYERS:
        _, channels, size, _, _, _ = layer
        symbol = mx.sym.Convolution(mx.sym.Variable("data"), name="conv", **attributes(layer))
        executor = symbol.simple_bind(mx.cpu(), data=(1, channels, size, size), grad_req="null")
        executor.arg_dict["data"][:] = mx.nd.random.normal(shape=(1, channels, size, size))
        found.append(best(lambda e=executor: e.forward(is_train=False)[0].wait_to_read(), repeat))
    return found


STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def chain(apply: Any, data: Any) -> Any:
    """ResNet-50 as calls of ``apply(operator, attributes, *inputs)``, which adds the parameters."""

    def normalized(x: Any, filters: int, kernel: int, stride: int, active: bool = True) -> Any:
        x = apply("Convolution", attributes((1, 0, 0, filters, kernel, stride)), x)
        x = apply("BatchNorm", {"fix_gamma": "False", "eps": "1e-05"}, x)
        return apply("Activation", {"act_type": "relu"}, x) if active else x

    x = normalized(data, 64, 7, 2)
    x = apply("Pooling", {"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)"}, x)
    for width, count in STAGES:
        for i in range(count):
            stride = 2 if i == 0 and width > 64 else 1
            y = normalized(normalized(x, width, 1, stride), width, 3, 1)
            y = normalized(y, width * 4, 1, 1, active=False)
            skipped = normalized(x, width * 4, 1, stride, active=False) if i == 0 else x
            x = apply("Activation", {"act_type": "relu"}, apply("elemwise_add", {}, y, skipped))
    x = apply("Pooling", {"global_pool": "True", "pool_type": "avg"}, x)
    return apply("FullyConnected", {"num_hidden": "1000"}, x)


def our_network(repeat: int) -> float:
    """The whole network by the kernels of this package."""
    import numpy as np

    from graphshare.ops.kernel import Context
    from graphshare.ops.registry import find_kernel, lookup

    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, 3, 224, 224), dtype=np.float32)
    steps: list[Any] = []

    def parameters(operator: str, attrs: dict[str, Any], x: Any) -> list[Any]:
        if operator == "BatchNorm":
            return [np.full(x.shape[1], n, np.float32) for n in (1, 0, 0, 1)]
        if operator == "Convolution":
            shape = (attrs["num_filter"], x.shape[1], *attrs["kernel"])
            return [
                rng.standard_normal(shape, dtype=np.float32)
                / np.float32(np.sqrt(shape[1] * shape[2] * shape[3]))
            ]
        return (
            [np.zeros((1000, 2048), np.float32), np.zeros(1000, np.float32)]
            if operator == "FullyConnected"
            else []
        )

    def first(operator: str, texts: dict[str, str], *inputs: Any) -> Any:
        if operator == "elemwise_add":
            return inputs[0] + inputs[1]
        kernel, signature = find_kernel(operator), lookup(operator)
        assert kernel is not None
        assert signature is not None
        attrs, _ = signature.parse(texts)
        steps.append((kernel.forward, attrs, parameters(operator, attrs, inputs[0])))
        return kernel.forward(Context(), attrs, *inputs, *steps[-1][2])

    chain(first, image)

    def run() -> None:
        following = iter(steps)

        def again(operator: str, _: dict[str, str], *inputs: Any) -> Any:
            if operator == "elemwise_add":
                return np.add(inputs[0], inputs[1], out=inputs[0])
            forward, attrs, values = next(following)
            return forward(
                Context(dead=(operator in ("BatchNorm", "Activation"),)), attrs, *inputs, *values
            )

        chain(again, image)

    return best(run, repeat)


def their_network(repeat: int) -> float:
    """The whole network by MXNet; runs in the oracle's Python."""
    import mxnet as mx  # type: ignore[import-not-found,unused-ignore]

    symbol = chain(
        lambda operator, attrs, *inputs: getattr(mx.sym, operator)(*inputs, **attrs),
        mx.sym.Variable("data"),
    )
    executor = symbol.simple_bind(mx.cpu(), data=(1, 3, 224, 224), grad_req="null")
    for array in (*executor.arg_dict.values(), *executor.aux_dict.values()):
        array[:] = mx.nd.random.uniform(low=0.01, high=0.1, shape=array.shape)
    return best(lambda: executor.forward(is_train=False)[0].wait_to_read(), repeat)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0] if __doc__ else None)
    parser.add_argument("--oracle", help="a Python with MXNet")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--theirs", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for key in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[key] = options.threads
    if options.theirs:
        print(json.dumps([*theirs(options.repeat), their_network(options.repeat)]))
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    columns = {"graphshare": [*ours(options.repeat), our_network(options.repeat)]}
    if options.oracle:
        command = [
            options.oracle,
            __file__,
            "--theirs",
            "--repeat",
            str(options.repeat),
            "--threads",
            options.threads,
        ]
        columns["MXNet"] = json.loads(
            subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[
                -1
            ]
        )
    print(f"{'layer':<34}{''.join(f'{name:>12}' for name in columns)}  ms")
    for i, (count, channels, size, filters, kernel, stride) in enumerate(LAYERS):
        title = f"{count} x {channels}x{size}x{size} -> {filters}, {kernel}x{kernel}/{stride}"
        print(f"{title:<34}{''.join(f'{times[i]:12.3f}' for times in columns.values())}")
    sums = [
        sum(layer[0] * t for layer, t in zip(LAYERS, times[:-1], strict=True))
        for times in columns.values()
    ]
    print(f"{'all convolutions':<34}{''.join(f'{total:12.1f}' for total in sums)}")
    print(f"{'whole network':<34}{''.join(f'{times[-1]:12.1f}' for times in columns.values())}")


if __name__ == "__main__":
    main()
