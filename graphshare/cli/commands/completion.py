"""``graphshare completion``: scripts by which a shell asks graphshare for completions.

By click's protocol the words on the line are in ``COMP_WORDS`` and ``COMP_CWORD``, and completions
come back one per line. Unlike click's own scripts, these also complete the value in
``--option=value``, add no blank after ``data=``, complete names with a colon, and show descriptions
with a comma whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

from graphshare.checkpoint.save import write_stdout
from graphshare.cli.command import Command
from graphshare.errors import GraphshareError
from graphshare.ir.graph import Graph
from graphshare.text.names import split_key
from graphshare.text.urls import is_url, local_path

_BASH = r"""_graphshare_completion() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" type value completion option=
    local -a words found
    # bash takes words apart at = and : too, and replaces the last part alone.
    IFS=$' \t' read -ra words <<< "$line"
    [[ $line == *[[:blank:]] ]] && words+=("")
    local word="${words[${#words[@]} - 1]}" part="${COMP_WORDS[COMP_CWORD]}"
    [[ $part == [=:]* ]] && part=
    [[ $word == --*=* ]] && option="${word%%=*}="
    local head="${word%"$part"}"
    for completion in $(env COMP_WORDS="$line" COMP_CWORD=$((${#words[@]} - 1)) _GRAPHSHARE_COMPLETE=bash_complete "$1"); do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) found+=($(compgen -d -- "${word#"$option"}")); compopt -o filenames ;;
            file) found+=($(compgen -f -- "${word#"$option"}")); compopt -o filenames ;;
            plain) found+=("$value"); [[ $value == *= ]] && compopt -o nospace ;;
        esac
    done
    for value in "${found[@]}"; do
        COMPREPLY+=("${value#"${head#"$option"}"}")
    done
}
complete -o nosort -F _graphshare_completion graphshare
"""  # noqa: E501

_ZSH = r"""#compdef graphshare
_graphshare_completion() {
    local -a response described open plain
    local type value help option files word=${words[CURRENT]}
    (( $+commands[graphshare] )) || return 1
    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT - 1)) _GRAPHSHARE_COMPLETE=zsh_complete graphshare)}")
    [[ $word == --*=* ]] && option=${word%%=*}= && compset -P '--*='
    word=${word#$option}
    for type value help in $response; do
        case $type in
            dir) files=-/ ;;
            file) files=-f ;;
            plain)
                if [[ $help != _ ]]; then
                    described+=("$value:$help")
                elif [[ $value == *= ]]; then
                    open+=("$value")
                else
                    plain+=("$value")
                fi ;;
        esac
    done
    if [[ -n $files && $word == */* ]]; then  # what stands beside files is named as they are
        compadd -V unsorted -p ${word%/*}/ -- ${plain#${word%/*}/}
    else
        compadd -V unsorted -a plain
    fi
    compadd -S '' -V unsorted -a open
    (( $#described )) && _describe -V unsorted described
    [[ -n $files ]] && _path_files $files
    (( compstate[nmatches] ))
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _graphshare_completion "$@"
else
    compdef _graphshare_completion graphshare
fi
"""  # noqa: E501

_FISH = r"""function _graphshare_completion
    set -l token (commandline -ct)
    set -l head (string match --regex -- '^--[^=]+=' $token)
    for line in (env COMP_WORDS=(commandline -cp) COMP_CWORD=$token _GRAPHSHARE_COMPLETE=fish_complete graphshare)
        set -l parts (string split --max 1 , $line)
        switch $parts[1]
            case dir
                for path in (__fish_complete_directories $parts[2])
                    echo "$head$path"
                end
            case file
                for path in (__fish_complete_path $parts[2])
                    echo "$head$path"
                end
            case plain
                echo "$head$parts[2]"
        end
    end
end
complete --no-files --keep-order --command graphshare --arguments "(_graphshare_completion)"
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
EXAMPLES = {
    "completion": [
        ("bash; put this line into ~/.bashrc", 'eval "$(graphshare completion bash)"'),
        ("zsh; into ~/.zshrc, behind compinit", 'eval "$(graphshare completion zsh)"'),
        ("fish; into ~/.config/fish/config.fish", "graphshare completion fish | source"),
    ],
}


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(list(_SCRIPTS)))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    With it the shell completes commands, options, files, stems, and the names of nodes in a graph
    that is already on the line. bash needs version 4.4 or later.
    """
    write_stdout([_SCRIPTS[shell].encode()])


_MOST = 500  # more names are no help to a person
_OUTPUTS = ("--target", "--cut", "--upto")
_VARIABLES = ("--as-input", "--as-parameter", "--tie", "--copy", "--share-input", "--alias")
_PAIRS = ("--shape", "--feed")
_GRAPHS = ("graph", "graphs", "paths", "left", "right")


def complete_names(command: click.Command) -> None:
    """Give the options of ``command`` types that complete their values."""
    for parameter in command.params:
        parameter.type = _choose_type(parameter)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            complete_names(inner)


def _choose_type(parameter: click.Parameter) -> Any:
    """Return a type that completes the values of an option or argument, its own if there is none."""
    flags = {*parameter.opts, *parameter.secondary_opts}
    if flags & {*_OUTPUTS, *_VARIABLES, *_PAIRS, "--select"}:
        return _Name(flags)
    if isinstance(parameter, click.Argument):
        if not isinstance(parameter.type, type(click.STRING)):
            return parameter.type
        if parameter.name == "name":
            return _Name(set(_VARIABLES))
        return _GraphPath() if parameter.name in _GRAPHS else click.Path()
    if parameter.metavar == "GRAPH":
        return _GraphPath()
    return click.Path() if parameter.metavar in ("FILE", "OUT") else parameter.type


class _GraphPath(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A file, or the stem of a checkpoint beside it."""

    name = "graph"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        folder = os.path.dirname(incomplete)
        try:
            entries = sorted(os.listdir(folder or "."))
        except OSError:
            entries = []
        end = "-symbol.json"
        stems = [os.path.join(folder, e.removesuffix(end)) for e in entries if e.endswith(end)]
        stems = [stem for stem in stems if stem.startswith(incomplete)]
        return [*(CompletionItem(stem) for stem in stems), CompletionItem(incomplete, type="file")]


class _Name(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A name from the graph or the parameter file on the line."""

    name = "name"

    def __init__(self, flags: set[str]) -> None:
        self._flags = flags

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        try:
            names = dict.fromkeys(self._names(ctx))
        # A message would appear in the middle of the line being typed.
        except (GraphshareError, OSError, RecursionError):
            return []
        # A line break in a name would end its completion.
        matches = [name for name in names if name.startswith(incomplete) and name.isprintable()]
        return [CompletionItem(name) for name in matches[:_MOST]]

    def _names(self, ctx: click.Context) -> Iterator[str]:
        # While an option still waits for its value, click cannot tell the arguments apart and
        # leaves them over.
        arguments = [
            *(ctx.params.get(name) for name in ("graph", "file", "source", "left")),
            *ctx.args,
        ]
        # click completes a line before the command gets its paths.
        path = next((local_path(text) for text in arguments if isinstance(text, str)), None)
        if "--select" in self._flags:
            if path:
                yield from _list_keys(path)
            return
        graph = _graph(path)
        if graph is not None:
            yield from self._list_nodes(graph)

    def _list_nodes(self, graph: Graph) -> Iterator[str]:
        if not self._flags.isdisjoint(_OUTPUTS):
            # Start-up: only this path needs it
            from graphshare.analysis.name_lists import internals

            operators = [node for node in graph.nodes if not node.is_variable]
            yield from (name for name, _ in internals(operators))
            yield from (node.name for node in operators)
        elif not self._flags.isdisjoint(_PAIRS):
            from graphshare.analysis.roles import assign_roles  # start-up: only this path needs it

            for node, role in assign_roles(graph).items():
                if not role.is_parameter:
                    yield f"{node.name}="
        else:
            yield from (node.name for node in graph.variables())


def _list_keys(path: str) -> list[str]:
    from graphshare.formats.params.format import read_index  # start-up: only this path needs it

    return [split_key(record.key)[1] for record in read_index(path).records if record.key]


def _graph(source: str | None) -> Graph | None:
    """Return the graph on the line; stdin is not read."""
    if source is None or source == "-":
        return None
    # Start-up: only this path needs it
    from graphshare.checkpoint.load import find_by_stem, read_graph

    if is_url(source):
        return None  # a request for each key press would be slow
    path = source if os.path.isfile(source) else find_by_stem(source)
    return read_graph(path)[1] if path else None
