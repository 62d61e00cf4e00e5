"""The tasks of ``onnx_peers.py`` with other tools, as their documentation does them. Runs under a
Python that has these tools.

python benchmarks/onnx_peer_side.py TOOL TASK SOURCE OUT EXTERNAL

EXTERNAL is the name of the file beside OUT for external data; empty where the weights are in the model.
"""

import os
import sys

PREFIX = "b_"
OLD, NEW = "fc", "dense"
MIDDLE = "relu3"


class Refused(Exception):
    """The tool has no way to do this; the text says why."""


def without_external(load, source, external):
    """Load a model with onnx, the weights left where they are if they are in another file."""
    return load(source, load_external_data=not external)


def compose(task, source, out, external):
    """onnx.compose and onnx.utils."""
    import onnx
    from onnx import compose, utils

    # Its checker looks for external data in the working directory
    os.chdir(os.path.dirname(source))
    model = without_external(onnx.load, source, external)
    if task == "prefix":
        done = compose.add_prefix(model, PREFIX)
    elif task == "copy":
        done = compose.merge_models(model, compose.add_prefix(model, PREFIX), io_map=[])
    elif task == "tie":
        done = compose.merge_models(
            model, compose.add_prefix(model, PREFIX, rename_initializers=False), io_map=[]
        )
    elif task == "extract":
        utils.extract_model(source, out, ["data"], [MIDDLE])
        return
    else:
        raise Refused(f"onnx has no function to {task}")
    onnx.save(done, out)


def surgeon(task, source, out, external):
    """onnx-graphsurgeon."""
    import onnx
    import onnx_graphsurgeon as gs

    os.chdir(os.path.dirname(source))
    graph = gs.import_onnx(without_external(onnx.load, source, external))
    if task == "prefix":
        _surgeon_rename(graph, lambda name: PREFIX + name, constants=True)
    elif task == "rename":
        _surgeon_rename(graph, lambda name: name.replace(OLD, NEW), constants=True)
    elif task in ("copy", "tie"):
        other = gs.import_onnx(without_external(onnx.load, source, external))
        _surgeon_rename(other, lambda name: PREFIX + name, constants=task == "copy")
        if task == "tie":
            ours = graph.tensors()
            for node in other.nodes:
                node.inputs = [
                    ours[x.name] if isinstance(x, gs.Constant) else x for x in node.inputs
                ]
        graph.nodes += other.nodes
        graph.inputs += other.inputs
        graph.outputs += other.outputs
    elif task == "extract":
        graph.outputs = [graph.tensors()[MIDDLE]]
        graph.cleanup()
    elif task == "untie":
        users = {}
        for node in graph.nodes:
            for place, value in enumerate(node.inputs):
                if (
                    isinstance(value, gs.Constant)
                    and users.setdefault(value.name, node) is not node
                ):
                    node.inputs[place] = gs.Constant(PREFIX + value.name, value.values.copy())
    model = gs.export_onnx(graph)
    onnx.save(model, out)


def _surgeon_rename(graph, rename, constants):
    import onnx_graphsurgeon as gs

    for tensor in graph.tensors().values():
        if constants or not isinstance(tensor, gs.Constant):
            tensor.name = rename(tensor.name)
    for node in graph.nodes:
        node.name = rename(node.name)


def onnx_ir(task, source, out, external):
    """onnx-ir."""
    import onnx_ir as ir

    model = ir.load(source)
    graph = model.graph
    if task == "prefix":
        _ir_rename(graph, lambda name: PREFIX + name)
    elif task == "rename":
        _ir_rename(graph, lambda name: name.replace(OLD, NEW))
    elif task in ("copy", "tie"):
        other = graph.clone()
        _ir_rename(other, lambda name: PREFIX + name)
        weights = list(other.initializers.values())
        other.initializers.clear()
        for value in weights:
            if task == "tie":
                ours = graph.initializers[value.name.removeprefix(PREFIX)]
                ir.convenience.replace_all_uses_with(value, ours)
            else:
                graph.register_initializer(value)
        nodes, inputs, outputs = list(other), list(other.inputs), list(other.outputs)
        other.inputs.clear()
        other.outputs.clear()
        other.remove(nodes)
        graph.extend(nodes)
        graph.inputs.extend(inputs)
        graph.outputs.extend(outputs)
    elif task == "extract":
        model = ir.Model(
            ir.convenience.extract(graph, ["data"], [MIDDLE]), ir_version=model.ir_version
        )
    elif task == "untie":
        for value in list(graph.initializers.values()):
            for node, place in list(value.uses())[1:]:
                copy = ir.Value(
                    name=PREFIX + value.name,
                    type=value.type,
                    shape=value.shape,
                    const_value=value.const_value,
                )
                graph.register_initializer(copy)
                node.replace_input_with(place, copy)
    ir.save(model, out)


def _ir_rename(graph, rename):
    import onnx_ir as ir

    values = [*graph.inputs, *graph.initializers.values()]
    for node in graph:
        node.name = rename(node.name)
        values += node.outputs
    ir.convenience.rename_values(values, [rename(value.name) for value in values])


def pinto(task, source, out, external):
    """PINTO0309's sor4onnx (rename), snc4onnx (combine) and sne4onnx (extract)."""
    os.chdir(os.path.dirname(source))
    if task == "rename":
        from sor4onnx import rename

        names = [OLD, NEW]
        rename(old_new=names, input_onnx_file_path=source, output_onnx_file_path=out, mode="full",
               search_mode="partial_match", non_verbose=True)  # fmt: skip
    elif task == "extract":
        from sne4onnx import extraction

        extraction(input_op_names=["data"], output_op_names=[MIDDLE], input_onnx_file_path=source,
                   output_onnx_file_path=out, non_verbose=True)  # fmt: skip
    elif task == "copy":
        from snc4onnx import combine

        combine(srcop_destop=[[]], input_onnx_file_paths=[source, source], output_onnx_file_path=out,
                op_prefixes_after_merging=["a", "b"], disable_onnxsim=True, non_verbose=True)  # fmt: skip
    else:
        raise Refused(f"none of these tools can {task}")


TOOLS = {"onnx.compose": compose, "onnx-graphsurgeon": surgeon, "onnx-ir": onnx_ir, "PINTO": pinto}

if __name__ == "__main__":
    try:
        TOOLS[sys.argv[1]](*sys.argv[2:])
    except Refused as error:
        sys.exit(str(error))
