"""`psclust manifest`: the cluster as objects of Kubernetes."""

from __future__ import annotations

import click

from psclust.cli import output
from psclust.cli.misplaced_options import warn_of_misplaced_options
from psclust.cli.request import request_from_flags
from psclust.cli.request_options import REQUEST_CONTEXT, request_options


@click.command(context_settings=REQUEST_CONTEXT)
@request_options
@click.option(
    "--image", metavar="IMAGE", help="The image of all pods (default: the file's kubernetes.image)."
)
@click.option(
    "--plain", is_flag=True, help="Print Jobs and a Service, for clusters without JobSet."
)
def command(image: str | None, plain: bool, **flags: object) -> int:
    """Print the cluster as a JobSet, for `kubectl apply`: a pod for each task, which starts what
    `up` would.

    \b
    psclust manifest -f cluster.yaml | kubectl apply -f -
    psclust manifest --image registry.example.com/me/train:1 --ps 2 --workers 4 train.py --lr 0.1
    """
    from psclust.pods.kube_manifest import manifest, notes, render
    from psclust.spec.kubernetes_checks import check_for_kubernetes, refuse_hosts
    from psclust.spec.load import Override

    request = request_from_flags(
        laid_over=[Override("--image", ("kubernetes", "image"), image)] if image else [],
        rules=[check_for_kubernetes],
        find_hosts=refuse_hosts,
        **flags,  # type: ignore[arg-type]
    )
    warn_of_misplaced_options(request, flags["program"])  # type: ignore[arg-type]
    output.say(render(manifest(request.file, plain=plain)).rstrip("\n"))
    for line in notes(request.file):
        output.error(f"note: {line}")
    return 0
