"""Examples of every command: the end of its ``--help``, of its page and of the manual. A test runs each of them.

They speak of ``lenet``, a checkpoint, and of ``siam``, what the first example makes of it.
"""

from __future__ import annotations

import click

EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "duplicate": [
        ("a siamese network on one set of parameters", "graphshare duplicate lenet --prefix sha- --mode tie -o siam"),
        ("the last layer apart, all else shared", "graphshare duplicate lenet --prefix b- --mode tie --copy 'fc2*' -o heads"),
        ("show the plan", "graphshare duplicate lenet --prefix sha- --dry-run"),
    ],
    "share": [
        ("one bias for both batch normalisations", "graphshare share siam --alias bn1_beta=bn1_gamma -o shared"),
        ("what may be meant to be one", "graphshare share siam --detect"),
    ],
    "group": [
        ("two networks side by side", "graphshare group lenet lenet --prefix a_ --prefix b_ -o pair"),
    ],
    "rules explain": [
        ("where a parameter comes from", "graphshare rules explain b/conv/w --override b=a"),
    ],
    "rules check": [("before it is used", "graphshare rules check rules.json")],
    "extract": [
        ("the features of a classifier", "graphshare extract lenet --target fc1_output -o features"),
        ("what follows an inner output", "graphshare extract lenet --cut pool2_output --target softmax_output -o top"),
    ],
    "rename": [
        ("a prefix for everything", "graphshare rename lenet --prefix net1_ -o net1"),
        ("parameters alone", "graphshare rename lenet --prefix old_ --only parameters -o old"),
    ],
    "upgrade": [("what MXNet 1.9.1 would write", "graphshare upgrade lenet -o upgraded")],
    "format": [
        ("for reading and diffing", "graphshare format lenet --layout indent:2"),
        ("in CI", "graphshare format lenet --layout mxnet --check"),
    ],
    "inspect": [
        ("what is in it", "graphshare inspect lenet"),
        ("shapes and multiply-adds", "graphshare inspect lenet --shape data=1,1,28,28"),
    ],
    "run": [
        ("random data", "graphshare run lenet --random 0 --shape data=1,1,28,28"),
        ("an inner output", "graphshare run lenet --random 0 --shape data=1,1,28,28 --target fc1_output -o out.npz"),
    ],
    "verify": [("the branches of a siamese network", "graphshare verify siam --prefix=sha-")],
    "check": [
        ("a model and its parameters", "graphshare check lenet-symbol.json --params lenet-0000.params"),
        ("what a rule means", "graphshare check --explain GS101"),
        ("all rules", "graphshare check --list"),
    ],
    "diff": [
        ("a copy of a checkpoint", "graphshare diff lenet lenet"),
        ("what else is new beside the prefix", "graphshare diff lenet siam --prefix sha-"),
    ],
    "draw": [
        ("SVG, where Graphviz is installed", "graphshare draw siam --shape data=1,1,28,28 -o siam.svg"),
        ("for a Markdown page", "graphshare draw siam --to mermaid"),
    ],
    "completion": [
        ("bash; put this line into ~/.bashrc", 'eval "$(graphshare completion bash)"'),
        ("zsh; into ~/.zshrc, behind compinit", 'eval "$(graphshare completion zsh)"'),
        ("fish; into ~/.config/fish/config.fish", "graphshare completion fish | source"),
    ],
    "params": [],
    "params list": [("names, types, shapes", "graphshare params list lenet-0000.params")],
    "params show": [("one layer", "graphshare params show lenet-0000.params --select 'conv1*'")],
    "params stats": [("look for NaN", "graphshare params stats lenet-0000.params")],
    "params diff": [("did training move it", "graphshare params diff lenet-0000.params lenet-0000.params")],
    "params convert": [
        ("for other tools", "graphshare params convert lenet-0000.params lenet.safetensors"),
        ("one layer", "graphshare params convert lenet-0000.params conv1.npz --select 'conv1*'"),
    ],
}


def add_examples(command: click.Command, path: str) -> None:
    """Gives a command, and those inside it, its examples as the end of its help."""
    found = EXAMPLES.get(path)
    if found and not command.epilog:
        lines = [f"  # {what}\n  {line}" for what, line in found]
        command.epilog = "\b\nExamples:\n" + "\n".join(lines)
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            add_examples(inner, f"{path} {name}")
