"""``run``, ``bind`` and ``train``: compute a model's outputs, often or with training first."""

from graphshare.execute.bind import bind as bind
from graphshare.execute.run import run as run
from graphshare.execute.train.train import train as train
