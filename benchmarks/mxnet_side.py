"""The same work with MXNet, as one writes it by hand. Runs under a Python that has MXNet 1.9.1.

python benchmarks/mxnet_side.py export STEM
python benchmarks/mxnet_side.py duplicate GRAPH OUT [PARAMS PARAMS_OUT]
"""

import sys

import mxnet as mx

PREFIX = "sha-"


def export(stem):
    """ResNet-50 of the model zoo with random weights."""
    net = mx.gluon.model_zoo.vision.resnet50_v1()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.zeros((1, 3, 224, 224)))
    net.export(stem)


def duplicate(graph, out, params="", params_out=""):
    """A second branch: the text of the graph with other names, loaded and grouped; parameters under both names."""
    with open(graph, encoding="utf-8") as file:
        text = file.read()
    other = mx.sym.load_json(text.replace('"name": "', '"name": "' + PREFIX))
    mx.sym.Group([mx.sym.load_json(text), other]).save(out)
    if params:
        loaded = mx.nd.load(params)
        both = dict(loaded)
        both.update({name.replace(":", ":" + PREFIX, 1): array for name, array in loaded.items()})
        mx.nd.save(params_out, both)


if __name__ == "__main__":
    {"export": export, "duplicate": duplicate}[sys.argv[1]](*sys.argv[2:])
