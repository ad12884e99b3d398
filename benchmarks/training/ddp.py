"""The skewed model with PyTorch's DistributedDataParallel over gloo: synchronous, without parameter servers. With `--half`, gradients
travel as float16. Every process says its steps."""

from __future__ import annotations

import argparse
import time

import torch
from skewed_shapes import SKEWED
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

parser = argparse.ArgumentParser()
parser.add_argument("--master")
parser.add_argument("--rank", type=int)
parser.add_argument("--world", type=int)
parser.add_argument("--half", action="store_true")
flags = parser.parse_args()
torch.distributed.init_process_group("gloo", init_method=f"tcp://{flags.master}", rank=flags.rank, world_size=flags.world)


class Skewed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(shape) * 0.01) for shape in SKEWED.values()])

    def forward(self) -> torch.Tensor:
        return sum((values.square().sum() / 2 for values in self.all), start=torch.zeros(()))


model = torch.nn.parallel.DistributedDataParallel(Skewed())
if flags.half:
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
said, step = 0.0, 0
while True:
    optimizer.zero_grad()
    model().backward()
    optimizer.step()
    step += 1
    if time.monotonic() - said > 0.1:
        said = time.monotonic()
        print(f"worker:{flags.rank} | step {step}", flush=True)
