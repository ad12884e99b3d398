"""`psclust completion`: what makes a shell complete verbs, options, names of runs and tasks."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from psclust.cli import output
from psclust.cli.completions import VARIABLE


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion of a shell.

    \b
    bash: echo 'eval "$(psclust completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(psclust completion zsh)"' >> ~/.zshrc    (after compinit)
    fish: psclust completion fish > ~/.config/fish/completions/psclust.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    output.say(
        found(click.get_current_context().find_root().command, {}, "psclust", VARIABLE)
        .source()
        .rstrip()
    )
