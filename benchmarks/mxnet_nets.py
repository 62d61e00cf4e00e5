"""Writes networks with random weights for the forward benchmarks. Runs under a Python that has MXNet 1.9.1.

python benchmarks/mxnet_nets.py NAME STEM

NAME is one of Gluon's model zoo, ``bert_base`` (an encoder of 12 layers of 768), ``lstm`` (2 layers
of 512) or ``small_steps`` (1,000 elementwise operators on 64 numbers). Prints the shape of the
input ``data``.
"""

import sys

import mxnet as mx

TOKENS, WORDS, WIDTH, HEADS, LAYERS = 128, 30522, 768, 12, 12
STEPS, UNITS = 35, 512


def zoo(name, stem):
    size = 299 if name == "inceptionv3" else 224
    net = mx.gluon.model_zoo.vision.get_model(name)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.random.uniform(shape=(1, 3, size, size)))
    net.export(stem)
    return 1, 3, size, size


def bert_base(stem):
    x = mx.sym.Embedding(mx.sym.var("data"), input_dim=WORDS, output_dim=WIDTH, name="word")
    x = mx.sym.transpose(x, axes=(1, 0, 2))  # steps, samples, units
    for i in range(LAYERS):
        qkv = mx.sym.FullyConnected(x, num_hidden=3 * WIDTH, flatten=False, name=f"layer{i}_qkv")
        scores = mx.sym.contrib.interleaved_matmul_selfatt_qk(qkv, heads=HEADS)
        weights = mx.sym.softmax(scores, axis=-1)
        seen = mx.sym.contrib.interleaved_matmul_selfatt_valatt(qkv, weights, heads=HEADS)
        seen = mx.sym.FullyConnected(seen, num_hidden=WIDTH, flatten=False, name=f"layer{i}_proj")
        x = mx.sym.LayerNorm(x + seen, name=f"layer{i}_ln1")
        inner = mx.sym.FullyConnected(x, num_hidden=4 * WIDTH, flatten=False, name=f"layer{i}_ffn1")
        inner = mx.sym.LeakyReLU(inner, act_type="gelu")
        inner = mx.sym.FullyConnected(inner, num_hidden=WIDTH, flatten=False, name=f"layer{i}_ffn2")
        x = mx.sym.LayerNorm(x + inner, name=f"layer{i}_ln2")
    return symbol(x, stem, (1, TOKENS))


def lstm(stem):
    state = mx.sym.zeros(shape=(2, 1, UNITS))
    data, parameters = mx.sym.var("data"), mx.sym.var("lstm_parameters")
    out = mx.sym.RNN(
        data, parameters, state, state, state_size=UNITS, num_layers=2, mode="lstm", name="lstm"
    )
    return symbol(out, stem, (STEPS, 1, UNITS))


def small_steps(stem):
    x, weight = mx.sym.var("data"), mx.sym.var("weight", shape=(1, 64))
    steps = (
        lambda x: x + 1.5,
        mx.sym.relu,
        lambda x: mx.sym.elemwise_add(x, weight),
        lambda x: x * 0.5,
        mx.sym.tanh,
        lambda x: mx.sym.broadcast_mul(x, weight),
        mx.sym.sigmoid,
        lambda x: x - weight,
    )
    for i in range(1000):
        x = steps[i % len(steps)](x)
    return symbol(x, stem, (1, 64))


def symbol(net, stem, shape):
    shapes, _, _ = net.infer_shape(data=shape)
    with open(f"{stem}-symbol.json", "w", encoding="utf-8") as file:
        file.write(net.tojson())
    draw = {
        f"arg:{name}": mx.nd.ones(wanted)
        if name.endswith("gamma")
        else mx.nd.random.normal(0, 0.05, shape=wanted)
        for name, wanted in zip(net.list_arguments(), shapes)  # noqa: B905 (Python 3.8 has no strict)
        if name != "data"
    }
    mx.nd.save(f"{stem}-0000.params", draw)
    return shape


if __name__ == "__main__":
    mx.random.seed(0)
    name, stem = sys.argv[1:]
    own = {"bert_base": bert_base, "lstm": lstm, "small_steps": small_steps}
    print(*(own[name](stem) if name in own else zoo(name, stem)), sep=",")
