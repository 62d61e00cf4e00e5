"""The page of the package, made of README.md when it is built: its links lead to the repository, or nowhere.

A link to a file of the checkout means nothing on a package index. With ``[project.urls]
Repository`` in pyproject.toml links and pictures become absolute; without it links become their
text, and pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


class PackagePage(MetadataHookInterface):
    """Sets the readme of the package's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        urls = metadata.get("urls", {})
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": make_page(text, urls.get("Repository", "")),
        }


def make_page(text: str, repository: str) -> str:
    """Return a README whose relative links lead to a repository; without one they are plain text."""

    def place(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        if repository:
            kind = "raw" if mark else "blob"
            return f"{mark}[{label}]({repository.rstrip('/')}/{kind}/main/{target})"
        return "" if mark else label

    return re.sub(r"\n{3,}", "\n\n", _LINK.sub(place, text))
