"""Random small models, each with one that differs by a change: some change nothing, most change what is computed.

A model is a list of steps, which any version of ONNX's operators can say: as attributes or as
inputs, with initializers or with Constants. Steps that do not fit after a change are no harm:
onnxruntime refuses the model, and the pair is left out.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VERSIONS = (7, 9, 10, 11, 12, 13, 14, 17, 18, 21)
_SHAPES = ((2, 4), (2, 3, 4), (4, 2, 3), (2, 2, 6, 6), (1, 2, 5, 5))
_UNARY = ("Relu", "Neg", "Exp", "Sigmoid", "Abs", "LeakyRelu")
_REDUCE = (
    "ReduceMax",
    "ReduceMin",
    "ReduceMean",
    "ReduceSum",
    "ReduceL1",
    "ReduceL2",
    "ReduceProd",
    "ReduceSumSquare",
)
_MOVED = {
    "Clip": (11, ("min", "max")), "Pad": (11, ("pads", "value")), "Slice": (10, ("starts", "ends", "axes", "steps")),
    "Split": (13, ("split",)), "Squeeze": (13, ("axes",)), "Unsqueeze": (13, ("axes",)), "TopK": (10, ("k",)),
    "ReduceSum": (13, ("axes",)), **{name: (18, ("axes",)) for name in _REDUCE if name != "ReduceSum"},
}  # fmt: skip
_DEFAULTS = {
    "Softmax": {"axis": 1}, "LogSoftmax": {"axis": -1}, "LeakyRelu": {"alpha": 0.01}, "Flatten": {"axis": 1},
    "Gather": {"axis": 0}, "Split": {"axis": 0}, "Conv": {"group": 1, "auto_pad": "NOTSET", "strides": [1, 1]},
    "MaxPool": {"auto_pad": "NOTSET", "pads": [0, 0, 0, 0], "ceil_mode": 0}, "TopK": {"largest": 1, "axis": -1},
    "BatchNormalization": {"momentum": 0.5, "epsilon": 1e-5}, "Gemm": {"alpha": 1.0, "transB": 0},
    **{name: {"keepdims": 1} for name in _REDUCE},
}  # fmt: skip


class Step(NamedTuple):
    """An operator: its inputs are numbers of values, or arrays that are constants."""

    op: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    outputs: tuple[int, ...]


class Recipe(NamedTuple):
    """What a model is made of. ``spelling`` chooses between initializers and Constants."""

    shape: tuple[int, ...]
    free: tuple[bool, ...]
    dtype: Any
    version: int
    steps: tuple[Step, ...]
    heads: tuple[int, ...]
    spelling: int


class _Grower:
    """Adds steps whose shapes fit, where the free sizes are those of ``_SHAPES``."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        shape = rng.choice(_SHAPES)
        self.shapes: dict[int, tuple[int, ...]] = {0: shape, 1: shape}
        self.steps: list[Step] = []

    def add(
        self, op: str, inputs: tuple[Any, ...], *shapes: tuple[int, ...], **attributes: Any
    ) -> int:
        first = len(self.shapes)
        outputs = tuple(range(first, first + len(shapes)))
        self.shapes.update(zip(outputs, shapes, strict=True))
        self.steps.append(Step(op, inputs, attributes, outputs))
        return outputs[0]

    def numbers(self, *shape: int) -> np.ndarray[Any, Any]:
        return np.array(
            [
                self.rng.choice((0.0, -0.0, 0.5, 1.0, -1.5, 2.25))
                for _ in range(int(np.prod(shape)))
            ],
            "f",
        ).reshape(shape)

    def grow(self) -> None:
        """Add one operator, or a few that belong together."""
        rng = self.rng
        value = rng.choice([*list(self.shapes)[-4:], *self.shapes])
        shape = self.shapes[value]
        rank, total = len(shape), int(np.prod(shape))
        axis = rng.randrange(rank) if rank else 0
        kind = rng.randrange(21)
        if kind == 0 or not rank or total > 2000:
            self.add(rng.choice(_UNARY), (value,), shape)
        elif kind == 1:
            attributes = {
                name: v for name, v in (("min", -0.5), ("max", 0.75)) if rng.random() < 0.7
            }
            self.add("Clip", (value,), shape, **attributes)
        elif kind in (2, 3):
            same = [other for other, each in self.shapes.items() if each == shape]
            other = rng.choice([rng.choice(same), self.numbers(shape[-1]), self.numbers()])
            pair = (value, other) if rng.random() < 0.5 else (other, value)
            self.add(rng.choice(("Add", "Sub", "Mul", "Div")), pair, shape)
        elif kind in (4, 5):
            perm = rng.sample(range(rank), rank)
            first = self.add("Transpose", (value,), tuple(shape[i] for i in perm), perm=perm)
            if rng.random() < 0.5:
                back = [perm.index(i) for i in range(rank)]
                self.add("Transpose", (first,), shape, perm=back)
        elif kind in (6, 7):
            sizes = [n for n in range(1, total + 1) if total % n == 0]
            size = rng.choice(sizes)
            new: tuple[int, ...] = (size, total // size)
            wanted = list(new)
            spelling = rng.randrange(4)
            if spelling < 2:
                wanted[spelling] = -1
            elif spelling == 2 and new[0] == shape[0]:
                wanted = [0, -1]
            first = self.add("Reshape", (value, np.array(wanted)), new)
            if rng.random() < 0.4:
                self.add("Reshape", (first, np.array(shape)), shape)
            elif rng.random() < 0.4:
                size = self.add("Shape", (value,), (rank,))
                self.add("Reshape", (first, size), shape)
                self.shapes[size] = ()  # of integers: nothing else reads it
                self.shapes = {k: v for k, v in self.shapes.items() if k != size} | {size: ()}
        elif kind == 8:
            where = rng.randrange(rank + 1)
            first = self.add(
                "Unsqueeze", (value,), (*shape[:where], 1, *shape[where:]), axes=[where]
            )
            if rng.random() < 0.6:
                self.add("Squeeze", (first,), shape, axes=[where])
        elif kind == 9 and 1 in shape:
            where = shape.index(1)
            self.add("Squeeze", (value,), (*shape[:where], *shape[where + 1 :]), axes=[where])
        elif kind == 10:
            self.add(
                "Flatten",
                (value,),
                (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))),
                axis=axis,
            )
        elif kind == 11:
            same = [other for other, each in self.shapes.items() if each == shape]
            count = rng.randint(1, 3)
            joined = (*shape[:axis], shape[axis] * count, *shape[axis + 1 :])
            self.add("Concat", tuple(rng.choice(same) for _ in range(count)), joined, axis=axis)
        elif kind == 12 and shape[axis] > 1:
            size = rng.randint(1, shape[axis] - 1)
            parts = [(*shape[:axis], n, *shape[axis + 1 :]) for n in (size, shape[axis] - size)]
            self.add("Split", (value,), *parts, axis=axis, split=[size, shape[axis] - size])
        elif kind == 13 and shape[axis] > 1:
            start = rng.randrange(shape[axis] - 1)
            end = rng.randint(start + 1, shape[axis])
            new = (*shape[:axis], end - start, *shape[axis + 1 :])
            self.add("Slice", (value,), new, starts=[start], ends=[end], axes=[axis])
        elif kind == 14:
            pads = [rng.randrange(2) for _ in range(2 * rank)]
            new = tuple(n + pads[i] + pads[i + rank] for i, n in enumerate(shape))
            more = {"value": rng.choice((0.0, 0.5))} if rng.random() < 0.5 else {}
            self.add("Pad", (value,), new, pads=pads, **more)
        elif kind == 15:
            axes = sorted(rng.sample(range(rank), rng.randint(1, rank)))
            keep = rng.random() < 0.5
            new = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
            self.add(
                rng.choice(_REDUCE), (value,), new, axes=axes, **({} if keep else {"keepdims": 0})
            )
        elif kind == 16:
            self.add(rng.choice(("Softmax", "LogSoftmax")), (value,), shape, axis=axis)
        elif kind == 17:
            k = rng.randint(1, shape[axis])
            new = (*shape[:axis], k, *shape[axis + 1 :])
            self.add("TopK", (value,), new, axis=axis, k=k)
        elif kind == 18:
            indices = np.array([rng.randrange(shape[axis]) for _ in range(2)])
            self.add("Gather", (value, indices), (*shape[:axis], 2, *shape[axis + 1 :]), axis=axis)
        elif kind == 19 and rank == 4 and min(shape[2:]) >= 3:
            self._add_window(value, shape)
        else:
            self._add_weight(value, shape)

    def _add_window(self, value: int, shape: tuple[int, ...]) -> None:
        batch, channels, height, width = shape
        which = self.rng.randrange(3)
        if which == 0:
            pads = [self.rng.randrange(2) for _ in range(4)]
            new = (batch, 2, height - 2 + pads[0] + pads[2], width - 2 + pads[1] + pads[3])
            self.add("Conv", (value, self.numbers(2, channels, 3, 3)), new, pads=pads)
        elif which == 1:
            self.add(
                "MaxPool", (value,), (batch, channels, height - 1, width - 1), kernel_shape=[2, 2]
            )
        else:
            statistics = (
                *(self.numbers(channels) for _ in range(3)),
                np.abs(self.numbers(channels)) + np.float32(1),
            )
            self.add("BatchNormalization", (value, *statistics), shape)

    def _add_weight(self, value: int, shape: tuple[int, ...]) -> None:
        """Multiply with a weight that may be transposed or reshaped before."""
        weight: Any = self.numbers(shape[-1], 2)
        if self.rng.random() < 0.5:
            weight = self.add(
                "Transpose", (np.ascontiguousarray(weight.T),), weight.shape, perm=[1, 0]
            )
        self.add("MatMul", (value, weight), (*shape[:-1], 2))


def make_recipe(rng: Random) -> Recipe:
    grower = _Grower(rng)
    shape = grower.shapes[0]
    for _ in range(rng.randint(4, 9)):
        grower.grow()
    free = tuple(rng.random() < 0.4 for _ in shape) if rng.random() < 0.5 else (False,) * len(shape)
    integers = {step.outputs[0] for step in grower.steps if step.op == "Shape"}
    used = {value for step in grower.steps for value in step.inputs if isinstance(value, int)}
    ends = [v for v in grower.shapes if v not in used and v not in integers and v > 1]
    return Recipe(
        shape,
        free,
        np.float32,
        rng.choice(VERSIONS),
        tuple(grower.steps),
        tuple(ends),
        rng.randrange(1 << 30),
    )


def build(recipe: Recipe) -> onnx.ModelProto:
    """Return the model of a recipe."""
    rng = Random(recipe.spelling)
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(recipe.dtype))
    nodes: list[onnx.NodeProto] = []
    tensors: list[TensorProto] = []
    is_by_name = rng.random() < 0.5

    def add_constant(array: Any) -> str:
        array = np.asarray(array)
        array = array.astype(recipe.dtype) if array.dtype.kind == "f" else array
        name = f"c{len(nodes)}_{len(tensors)}"
        tensor = numpy_helper.from_array(array, name)
        if rng.random() < 0.3 and array.dtype == np.float32:
            tensor = helper.make_tensor(
                name, TensorProto.FLOAT, array.shape, array.ravel().tolist()
            )
        if rng.random() < 0.5:
            tensors.append(tensor)
        else:
            nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    for step in recipe.steps:
        names = [
            f"v{value}" if isinstance(value, int) else add_constant(value) for value in step.inputs
        ]
        attributes = dict(step.attributes)
        version, places = _MOVED.get(step.op, (99, ()))
        if recipe.version >= version:
            operands = [attributes.pop(place, None) for place in places]
            if step.op == "TopK":
                operands = [None if operands[0] is None else [operands[0]]]
            names += ["" if each is None else add_constant(_as_operand(each)) for each in operands]
            while names and not names[-1]:
                names.pop()
        outputs = [f"v{value}" for value in step.outputs] + (
            ["", ""][:1] if step.op == "TopK" else []
        )
        if step.op == "TopK":
            outputs[-1] = f"i{step.outputs[0]}"
        name = f"n{step.outputs[0]}" if is_by_name else ""
        nodes.append(helper.make_node(step.op, names, outputs, name, **attributes))
    sizes = [
        f"N{i}" if is_free else n
        for i, (n, is_free) in enumerate(zip(recipe.shape, recipe.free, strict=True))
    ]
    inputs = [helper.make_tensor_value_info(f"v{i}", dtype, sizes) for i in range(2)]
    ir = 8 if recipe.version < 19 else 10
    heads = [helper.make_tensor_value_info(f"v{value}", dtype, None) for value in recipe.heads]
    graph = helper.make_graph(nodes, "g", inputs, heads, tensors)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", recipe.version)], ir_version=ir
    )


def _as_operand(value: Any) -> Any:
    return np.array(value, np.float32 if isinstance(value, float) else np.int64)


def change(recipe: Recipe, rng: Random) -> tuple[str, Recipe]:
    """Return a recipe that differs, and what was changed."""
    kinds = [_change_attribute, _change_attribute, _respell_attribute, _change_constant, _change_constant, _swap_inputs,
             _replace_input, _remove, _insert, _insert, _exchange_operator, _change_version, _change_input]  # fmt: skip
    while True:
        kind = rng.choice(kinds)
        changed = kind(recipe, rng)
        if changed is not None:
            return kind.__name__.strip("_"), changed._replace(
                spelling=rng.choice((recipe.spelling, rng.randrange(1 << 30)))
            )


def _put(recipe: Recipe, index: int, *steps: Step) -> Recipe:
    return recipe._replace(steps=(*recipe.steps[:index], *steps, *recipe.steps[index + 1 :]))


def _choose(recipe: Recipe, rng: Random, wanted: Any) -> tuple[int, Step] | None:
    chosen = [(index, step) for index, step in enumerate(recipe.steps) if wanted(step)]
    return rng.choice(chosen) if chosen else None


def _change_attribute(recipe: Recipe, rng: Random) -> Recipe | None:
    chosen = _choose(recipe, rng, lambda step: step.attributes)
    if chosen is None:
        return None
    index, step = chosen
    name = rng.choice(list(step.attributes))
    value: Any = step.attributes[name]
    if isinstance(value, list) and len(value) > 1 and rng.random() < 0.6:
        a, b = rng.sample(range(len(value)), 2)
        value = [value[b if i == a else a if i == b else i] for i in range(len(value))]
    elif isinstance(value, list):
        at, by = rng.randrange(len(value)), rng.choice((-1, 1))
        value = [n + by * (i == at) for i, n in enumerate(value)]
    elif (
        name == "keepdims"
    ):  # another number than 0 and 1 has no meaning: judges read it in their own ways
        value = 1 - value
    elif isinstance(value, int):
        value += rng.choice((-1, 1))
    else:
        value = rng.choice((value + 0.25, float(np.nextafter(np.float32(value), np.float32(9)))))
    attributes = (
        {key: v for key, v in step.attributes.items() if key != name}
        if rng.random() < 0.2
        else {**step.attributes, name: value}
    )
    return _put(recipe, index, step._replace(attributes=attributes))


def _respell_attribute(recipe: Recipe, rng: Random) -> Recipe | None:
    """State a default, or count an axis from the end, by some rank."""
    chosen = _choose(
        recipe, rng, lambda step: step.op in _DEFAULTS or {"axis", "axes"} & step.attributes.keys()
    )
    if chosen is None:
        return None
    index, step = chosen
    attributes = dict(step.attributes)
    rank = rng.choice((2, 3, 4, len(recipe.shape)))
    if "axis" in attributes and rng.random() < 0.6:
        attributes["axis"] -= rank
    elif "axes" in attributes and rng.random() < 0.6:
        attributes["axes"] = [axis - rank for axis in attributes["axes"]]
    elif step.op in _DEFAULTS:
        name, value = rng.choice(list(_DEFAULTS[step.op].items()))
        attributes[name] = value
    return _put(recipe, index, step._replace(attributes=attributes))


def _change_constant(recipe: Recipe, rng: Random) -> Recipe | None:
    chosen = _choose(
        recipe,
        rng,
        lambda step: any(isinstance(value, np.ndarray) and value.size for value in step.inputs),
    )
    if chosen is None:
        return None
    index, step = chosen
    place = rng.choice(
        [i for i, value in enumerate(step.inputs) if isinstance(value, np.ndarray) and value.size]
    )
    array = step.inputs[place].copy()
    flat = array.reshape(-1)
    at = rng.randrange(flat.size)
    if array.dtype.kind == "f":
        flat[at] = rng.choice(
            (
                -flat[at],
                flat[at] + 1,
                np.nextafter(flat[at], np.float32(9)),
                np.nan,
                np.inf,
                0.0,
                -0.0,
            )
        )
        array = (
            array[None]
            if rng.random() < 0.1
            else array.reshape(-1)
            if rng.random() < 0.1
            else array
        )
    elif rng.random() < 0.3:
        array = array[::-1].copy()
    else:
        flat[at] = rng.choice((flat[at] + 1, flat[at] - 1, -1, 0, flat[at] * 2))
    return _put(
        recipe,
        index,
        step._replace(inputs=tuple(array if i == place else v for i, v in enumerate(step.inputs))),
    )


def _swap_inputs(recipe: Recipe, rng: Random) -> Recipe | None:
    chosen = _choose(recipe, rng, lambda step: len(step.inputs) == 2)
    if chosen is None:
        return None
    index, step = chosen
    return _put(recipe, index, step._replace(inputs=step.inputs[::-1]))


def _replace_input(recipe: Recipe, rng: Random) -> Recipe | None:
    index = rng.randrange(len(recipe.steps))
    step = recipe.steps[index]
    places = [i for i, value in enumerate(step.inputs) if isinstance(value, int)]
    if not places:
        return None
    place = rng.choice(places)
    earlier = [0, 1, *(value for each in recipe.steps[:index] for value in each.outputs)]
    other = rng.choice(earlier)
    return _put(
        recipe,
        index,
        step._replace(inputs=tuple(other if i == place else v for i, v in enumerate(step.inputs))),
    )


def _remove(recipe: Recipe, rng: Random) -> Recipe | None:
    chosen = _choose(
        recipe,
        rng,
        lambda step: isinstance(step.inputs[0], int) and step.outputs[0] not in recipe.heads,
    )
    if chosen is None:
        return None
    index, removed = chosen
    old, new = removed.outputs[0], removed.inputs[0]
    steps = [
        step._replace(
            inputs=tuple(new if isinstance(v, int) and v == old else v for v in step.inputs)
        )
        for i, step in enumerate(recipe.steps)
        if i != index
    ]
    return recipe._replace(steps=tuple(steps))


def _insert(recipe: Recipe, rng: Random) -> Recipe | None:
    """Put one or two operators before one: they may change nothing."""
    index = rng.randrange(len(recipe.steps))
    step = recipe.steps[index]
    places = [i for i, value in enumerate(step.inputs) if isinstance(value, int)]
    if not places:
        return None
    place = rng.choice(places)
    value = step.inputs[place]
    a, b = 1000, 1001
    rank = rng.choice((2, 3, 4, len(recipe.shape)))
    perm = rng.sample(range(rank), rank)
    back = [perm.index(i) for i in range(rank)] if rng.random() < 0.6 else perm
    axes, other = [rng.randrange(2)], [rng.randrange(2)]
    pairs: list[tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...]] = [
        (("Identity", (), {}), ("Identity", (), {})),
        (("Dropout", (), {}), ("Identity", (), {})),
        (("Cast", (), {"to": rng.choice((1, 1, 10, 11))}), ("Cast", (), {"to": 1})),
        (("Transpose", (), {"perm": perm}), ("Transpose", (), {"perm": back})),
        (("Transpose", (), {"perm": sorted(perm)}), ("Identity", (), {})),
        (("Unsqueeze", (), {"axes": axes}), ("Squeeze", (), {"axes": other})),
        (("Squeeze", (), {"axes": axes}), ("Unsqueeze", (), {"axes": other})),
        (("Reshape", (np.array([-1]),), {}), ("Reshape", (np.array(recipe.shape),), {})),
        (("Reshape", (np.array([0, -1]),), {}), ("Reshape", (np.array(recipe.shape[::-1]),), {})),
        (("Flatten", (), {"axis": rng.randrange(3)}), ("Reshape", (np.array(recipe.shape),), {})),
        (("Concat", (), {"axis": 0}), ("Identity", (), {})),
        (("Relu", (), {}), ("Identity", (), {})),
    ]
    first, second = rng.choice(pairs)
    return _put(
        recipe,
        index,
        Step(first[0], (value, *first[1]), first[2], (a,)),
        Step(second[0], (a, *second[1]), second[2], (b,)),
        step._replace(inputs=tuple(b if i == place else v for i, v in enumerate(step.inputs))),
    )


_GROUPS = (_UNARY, _REDUCE, ("Add", "Sub", "Mul", "Div"), ("Softmax", "LogSoftmax"))


def _exchange_operator(recipe: Recipe, rng: Random) -> Recipe | None:
    chosen = _choose(recipe, rng, lambda step: any(step.op in group for group in _GROUPS))
    if chosen is None:
        return None
    index, step = chosen
    group = next(group for group in _GROUPS if step.op in group)
    return _put(recipe, index, step._replace(op=rng.choice(group)))


def _change_version(recipe: Recipe, rng: Random) -> Recipe:
    return recipe._replace(version=rng.choice(VERSIONS))


def _change_input(recipe: Recipe, rng: Random) -> Recipe:
    """State another dtype, or make sizes free, fixed, or others."""
    which = rng.randrange(3)
    if which == 0:
        return recipe._replace(dtype=rng.choice((np.float64, np.float16)))
    if which == 1:
        return recipe._replace(shape=tuple(n + (rng.random() < 0.3) for n in recipe.shape))
    return recipe._replace(free=tuple(rng.random() < 0.5 for _ in recipe.shape))
