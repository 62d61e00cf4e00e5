"""What Gluon calls the parameters of nets of its zoo, by blocks and in an exported graph. Runs
under a Python that has MXNet.

    ORACLE_PYTHON tests/oracle/block_names_process.py FOLDER NET...

For each net FOLDER gets the graph, a file of ``save_parameters`` with int8 zeros, and the pairs of names as JSON.
"""

import json
import sys

import mxnet as mx
from mxnet.gluon.model_zoo import vision

folder, *names = sys.argv[1:]
for name in names:
    net = vision.get_model(name)
    graph = net(mx.sym.var("data"))
    size = 299 if name == "inceptionv3" else 224
    arguments, _, states = graph.infer_shape(data=(1, 3, size, size))
    shapes = dict(zip(graph.list_arguments(), arguments, strict=True))
    shapes.update(zip(graph.list_auxiliary_states(), states, strict=True))
    parameters = net._collect_params_with_prefix()
    graph.save(f"{folder}/{name}-symbol.json")
    mx.nd.save(
        f"{folder}/{name}.params",
        {key: mx.nd.zeros(shapes[p.name], dtype="int8") for key, p in parameters.items()},
    )
    with open(f"{folder}/{name}.json", "w") as file:
        json.dump([[key, p.name] for key, p in parameters.items()], file)
