"""GS004: escapes that JSON has and MXNet has not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphshare.checks.examples import dense
from graphshare.checks.model import Example, Found, Rule
from graphshare.checks.subject import Subject
from graphshare.formats.mxnet.places import line_and_column
from graphshare.reports.model import Level

_ESCAPE = re.compile(r'\\(?:["\\nrt]|(.))', re.DOTALL)
_SHOWN = 20


def find(subject: Subject) -> Iterator[Found]:
    """Each escape, up to a few."""
    text = subject.reading.text
    if text is None or subject.reading.malformed or "\\" not in text:
        return
    matches = [match for match in _ESCAPE.finditer(text) if match[1] is not None]
    for i, match in enumerate(matches[:_SHOWN]):
        shown = text[match.start() : match.start() + (6 if match[1] == "u" else 2)]
        more = f" (and {len(matches) - _SHOWN} more)" if i == _SHOWN - 1 and len(matches) > _SHOWN else ""
        hint = "write the character itself, in UTF-8 (json.dumps: ensure_ascii=False)"
        yield Found(f"the escape {shown} is none that MXNet reads{more}", hint=hint, at=line_and_column(text, match.start()))


RULE = Rule(
    code="GS004",
    name="foreign-escape",
    level=Level.ERROR,
    summary="A string holds an escape that MXNet cannot read",
    why='MXNet knows \\" \\\\ \\n \\r \\t and refuses a file with any other, \\u00e9 and \\/ among them; '
    "json.dumps writes such files as soon as a name is not ASCII.",
    find=find,
    fails=Example(dense().replace("fc_bias", "fc_bi\\u00e4s")),
    passes=Example(dense().replace("fc_bias", "fc_bi\u00e4s")),
    fix="writes the characters themselves",
)
