"""The preparation that published models expect, as data, each with the source of its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Preset(msgspec.Struct, frozen=True):
    """``settings`` are fields of ``ImageSettings``; ``models`` says what they are for, ``source`` where they come from."""

    models: str
    settings: Mapping[str, Any]
    source: str


PRESETS = {
    "gluoncv": Preset(
        "ImageNet classifiers of GluonCV and of Gluon's model zoo",
        {"resize": 256, "crop": (224, 224), "mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)},
        "transform_eval in gluoncv/data/transforms/presets/imagenet.py; mean and std there times 255",
    ),
    "imagenet1k-resnet": Preset(
        "imagenet1k-resnet-34 to -152 of MXNet's symbol model zoo",
        {"resize": 256, "crop": (224, 224)},
        "test_imagenet1k_resnet in example/image-classification/test_score.py of MXNet (rgb_mean 0,0,0; val-5k-256.rec)",
    ),
    "imagenet1k-inception-bn": Preset(
        "imagenet1k-inception-bn of MXNet's symbol model zoo",
        {"resize": 256, "crop": (224, 224), "mean": (123.68, 116.779, 103.939)},
        "test_imagenet1k_inception_bn in example/image-classification/test_score.py of MXNet",
    ),
    "insightface": Preset(
        "ArcFace and gender-age nets of InsightFace, on an aligned face; they normalize inside the graph",
        {"resize": (112, 112)},
        "get_input and get_feature in deploy/face_model.py of deepinsight/insightface",
    ),
    "mtcnn": Preset(
        "MTCNN's det1 to det4; --resize makes the levels of det1's pyramid",
        {"mean": (127.5,), "scale": 0.0078125, "color": "bgr"},
        "adjust_input in helper.py and cv2.imread in main.py of YYuanAnyVision/mxnet_mtcnn_face_detection",
    ),
    "mnist": Preset(
        "LeNets trained on MNIST as MXNet's examples load it: white digits on black, 28x28",
        {"resize": (28, 28), "scale": 1 / 255, "color": "gray"},
        "get_mnist in python/mxnet/test_utils.py of MXNet",
    ),
}
