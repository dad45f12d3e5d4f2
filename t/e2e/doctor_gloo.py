# SPDX-License-Identifier: Apache-2.0
"""doctor_gloo.py WHAT VALUE: as doctor_task.py, with torch.distributed on gloo.

WHAT: steps (a model that DDP keeps alike, with VALUE ms of work in each), uneven (a different rank in turn has most to do), loader
(batches come from processes of a DataLoader), late (rank 0 has VALUE ms to do between steps), gather (objects); hang HOW.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

BAD = 1


class Batches(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 1000000

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.ones(8)


def there():
    with open(f"there.{dist.get_rank() if dist.is_initialized() else os.environ['RANK']}", "w", encoding="ascii"):
        pass


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.ones(64, 64).matmul(torch.ones(64, 64))


def steps(seconds, load=None, of=lambda step: 1):
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(load) if load else None
    there()
    for step in range(1000000):
        batch = next(batches) if batches else torch.ones(4, 8)
        compute(seconds * of(step))
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()


def gather(seconds):
    there()
    while True:
        compute(seconds)
        dist.all_gather_object([None] * dist.get_world_size(), {"rank": dist.get_rank()})
        dist.barrier()


def hang_loader():
    next(iter(DataLoader(Batches(100000), batch_size=1, num_workers=1)))


def hang_broadcast():
    dist.broadcast(torch.ones(4), src=0)


def hang_receive():
    dist.recv(torch.ones(4), src=0)


def hang_store():
    dist.distributed_c10d._get_default_store().get("never")  # pylint: disable=protected-access


def hang_sleep():
    time.sleep(100000)


def hang(how):
    there()
    if dist.get_rank() != BAD:
        dist.all_reduce(torch.ones(4))
    globals()[f"hang_{how}"]()
    sys.exit(f"doctor_gloo.py: {how} does not hang")


def main():
    what, value = sys.argv[1:3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if what == "hang":
        hang(value)
    seconds = int(value) / 1000
    {"steps": lambda: steps(seconds),
     "uneven": lambda: steps(seconds, of=lambda step: 8 if step % size == rank else 1),
     "loader": lambda: steps(0, DataLoader(Batches(seconds), batch_size=4, num_workers=2)),
     "late": lambda: steps(seconds, of=lambda step: 1 if rank == 0 else 0),
     "gather": lambda: gather(seconds)}[what]()


main()
