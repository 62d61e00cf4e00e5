"""``graphshare completion``: what a shell evaluates so that it asks graphshare for completions.

The words on the line go in through ``COMP_WORDS`` and ``COMP_CWORD``, completions come back a line each, as click has it.
Beyond click's own scripts these also complete the value in ``--option=value``, add no blank behind ``data=``, whose value is
still to come, complete names with a colon, and show descriptions with a comma whole.
"""

from __future__ import annotations

import click

from graphshare.checkpoint.save import write_stdout
from graphshare.cli.command import Command

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
"""

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
"""

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

    With it the shell completes commands, options, files, stems, and the names of the nodes of the graph that stands on the
    line already. bash needs version 4.4 or later.
    """
    write_stdout([_SCRIPTS[shell].encode()])
