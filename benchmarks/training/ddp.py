"""A model with PyTorch's DistributedDataParallel over gloo: synchronous, without parameter servers.
With `--half`, gradients travel as float16; those of the embedding's table are sparse. Every process
says its steps."""

from __future__ import annotations

import argparse
import itertools
import time

import torch
from model_sizes import CLASSES, EXAMPLES, PIXELS, ROWS, SKEWED, WIDTH, WIDTHS, WORDS
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=list(EXAMPLES))
parser.add_argument("--master")
parser.add_argument("--rank", type=int)
parser.add_argument("--world", type=int)
parser.add_argument("--half", action="store_true")
flags = parser.parse_args()
torch.distributed.init_process_group(
    "gloo", init_method=f"tcp://{flags.master}", rank=flags.rank, world_size=flags.world
)


class Skewed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.randn(shape) * 0.01) for shape in SKEWED.values()]
        )

    def forward(self) -> torch.Tensor:
        return sum((values.square().sum() / 2 for values in self.all), start=torch.zeros(()))


class Classifier(torch.nn.Module):
    """The mean loss of `layers` over one batch, which each step uses again."""

    def __init__(self, features: torch.Tensor, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*layers)
        self.features, self.labels = features, torch.randint(0, CLASSES, [EXAMPLES[flags.model]])

    def forward(self) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.layers(self.features), self.labels)


def made() -> torch.nn.Module:
    if flags.model == "skewed":
        return Skewed()
    if flags.model == "embedding":
        table, flat = torch.nn.Embedding(ROWS, WIDTH, sparse=True), torch.nn.Flatten()
        return Classifier(
            torch.randint(0, ROWS, [EXAMPLES["embedding"], WORDS]),
            table,
            flat,
            torch.nn.Linear(WORDS * WIDTH, CLASSES),
        )
    layers: list[torch.nn.Module] = []
    widths = [PIXELS, *WIDTHS[flags.model], CLASSES]
    for last, width in itertools.pairwise(widths):
        layers += [torch.nn.Linear(last, width), torch.nn.ReLU()]
    return Classifier(torch.rand(EXAMPLES[flags.model], PIXELS), *layers[:-1])


model = torch.nn.parallel.DistributedDataParallel(made())
if flags.half:
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
said, step = 0.0, 0
while True:
    optimizer.zero_grad()
    model().backward()
    optimizer.step()
    step += 1
    if time.monotonic() - said > 0.5:
        said = time.monotonic()
        print(f"worker:{flags.rank} | step {step}", flush=True)
