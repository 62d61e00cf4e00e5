"""``fold`` of real models: how many of the folded ones weights prove, for every input.

    python -m benchmarks.folds --corpus DIR [--export N] [FOLDER]

DIR has the graphs, inputs and parameters that ``tests/corpus/test_fold.py`` folds. N of these
graphs, the smallest first, are folded as ONNX models too, after an export; so are all ONNX models
with BatchNormalization below FOLDER.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import graphshare as gs
from tests.surroundings import corpus_stems


def list_graphs(
    corpus: Path,
) -> Iterator[tuple[str, Callable[[], gs.Checkpoint], dict[str, tuple[int, ...]]]]:
    """Yield the graphs of a corpus that have BatchNorm and recorded numbers: the name, what loads
    it, and shapes of inputs.
    """
    os.environ["GRAPHSHARE_CORPUS"] = str(corpus)
    # It reads the list of graphs when it is imported
    from tests.corpus.test_fold import has_norm, load_seeded

    for stem in sorted(
        corpus_stems(has_norm), key=lambda stem: (corpus / "graphs" / f"{stem}.json").stat().st_size
    ):
        model, inputs = load_seeded(corpus, stem)
        yield stem, lambda model=model: model, {name: value.shape for name, value in inputs.items()}


def describe_fold(model: gs.Checkpoint) -> str:
    """Return how a folded model is proved, in a word or two, or why it is not."""
    try:
        report = gs.fold(model).report
    except gs.GraphshareError as error:
        return f"refused: {error.faults[0].message[:80]}"
    if not report.count:
        return "nothing to fold"
    return (
        "by weights"
        if report.by_weights is not None
        else "on inputs"
        if report.proof
        else "not proved"
    )


def print_counts(title: str, words: dict[str, str]) -> None:
    """Print how many models each word says, and which are not proved by weights."""
    print(f"{len(words)} {title}")
    print(*(f"{count:6} {word}" for word, count in Counter(words.values()).most_common()), sep="\n")
    print(
        *(
            f"       {name}: {word}"
            for name, word in words.items()
            if word not in ("by weights", "nothing to fold")
        ),
        sep="\n",
    )


def main() -> None:
    """Fold and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True, metavar="DIR")
    parser.add_argument("--export", type=int, default=20, metavar="N")
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER")
    options = parser.parse_args()
    graphs: dict[str, str] = {}
    exports: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        for stem, load, shapes in list_graphs(options.corpus):
            graphs[stem] = describe_fold(load())
            path = Path(name) / "model.onnx"
            if len(exports) < options.export and graphs[stem] == "by weights":
                try:
                    gs.export(load(), path, shapes=shapes, verify=False)
                except gs.GraphshareError:
                    continue
                exports[stem] = describe_fold(gs.load(path))
    print_counts("graphs of the corpus with BatchNorm", graphs)
    print_counts("ONNX models exported of these", exports)
    if options.folder:
        paths = [
            path
            for path in sorted(options.folder.rglob("*.onnx"))
            if b"BatchNormalization" in path.read_bytes()
        ]
        models = {
            str(path.relative_to(options.folder)): describe_fold(gs.load(path)) for path in paths
        }
        print_counts("ONNX models with BatchNormalization", models)


if __name__ == "__main__":
    main()
