"""Print the table of tied names as JSON: ``_tied_weights_keys`` of every model class of the installed transformers.

It runs in a Python that has transformers and torch, which the tests name by
``GRAPHSHARE_TRANSFORMERS``. Only plain names are taken: keys that are modules or regular
expressions concern heads of detectors, not vocabularies.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re

import transformers
import transformers.models

_NAME = re.compile(r"[A-Za-z0-9_.]+\.(?:weight|bias)")


def main() -> None:
    """Import each modeling module, and print the pairs of names, each with the classes that state it."""
    classes: dict[str, dict[str, str]] = {}
    for package in pkgutil.iter_modules(transformers.models.__path__):
        for module in pkgutil.iter_modules(
            importlib.import_module(f"transformers.models.{package.name}").__path__
        ):
            if module.name.startswith("modeling_"):
                try:
                    loaded = importlib.import_module(
                        f"transformers.models.{package.name}.{module.name}"
                    )
                except ImportError:  # it needs a package that is not installed
                    continue
                for name, member in vars(loaded).items():
                    keys = (
                        getattr(member, "_tied_weights_keys", None)
                        if isinstance(member, type)
                        else None
                    )
                    if isinstance(keys, dict) and member.__module__ == loaded.__name__:
                        plain = {
                            new: old
                            for new, old in keys.items()
                            if _NAME.fullmatch(new) and _NAME.fullmatch(old)
                        }
                        classes.update({name: plain} if plain else {})
    groups: dict[str, list[str]] = {}
    for name in sorted(classes):
        groups.setdefault(
            " ".join(f"{new}={old}" for new, old in classes[name].items()), []
        ).append(name)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = ",\n".join(
        f"  {json.dumps(pairs)}: {json.dumps(' '.join(names))}" for pairs, names in ordered
    )
    print(
        f'{{"source": "transformers {transformers.__version__}, _tied_weights_keys",\n "classes": {{\n{lines}\n}}}}'
    )


if __name__ == "__main__":
    main()
