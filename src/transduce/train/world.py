"""The processes that train one model together, as torchrun starts them; without it there is one.

Only rank 0 writes and decides. The others hear of it by `tell`; what each has computed is added up by `sum`.
"""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from transduce.errors import RunError

TIMEOUT = timedelta(minutes=30)  # for a rank that does not answer
PATIENCE = timedelta(days=1)  # for what rank 0 does alone: preparing data, validating
ENDING = 3.0  # seconds that a process may take to be gone after it let go of its connections
LETTING_GO = 0.5  # seconds for gloo's threads to drop their last tensors
BUCKET = 25 * 2**20  # bytes that travel together, as DDP has it


@dataclass(frozen=True)
class World:
    """Process number `rank` of `size`; every method that communicates must be called by all of them, in one order."""

    rank: int = 0
    size: int = 1
    local_size: int = 1  # processes on this machine
    peers: tuple[tuple[int, int], ...] = ()  # machine and process number of each rank
    patient: dist.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and decides."""
        return self.rank == 0

    @property
    def cores(self) -> int:
        """This process's share of the machine's."""
        return max(1, len(os.sched_getaffinity(0)) // self.local_size)

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Each tensor becomes its sum over all ranks."""
        if self.size == 1:
            return
        for bucket in buckets(tensors):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            with self.watched():
                dist.all_reduce(flat)
            for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def highest(self, numbers: Sequence[int]) -> list[int]:
        """The highest that any rank says, place by place; through the CPU, so that no GPU is waited for."""
        if self.size == 1:
            return list(numbers)
        found = torch.tensor(numbers, dtype=torch.int64)
        with self.watched():
            dist.all_reduce(found, dist.ReduceOp.MAX)
        return [int(number) for number in found]

    def tell(self, message: Any = None) -> Any:
        """What rank 0 says, as JSON carries it; the others wait for it and need say nothing."""
        if self.size == 1:
            return message
        text = list(json.dumps(message).encode()) if self.first else []
        with self.watched():
            length = torch.tensor([len(text)])
            dist.broadcast(length, 0, group=self.patient)
            data = torch.tensor(text, dtype=torch.uint8) if self.first else torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(data, 0, group=self.patient)
        return json.loads(bytes(data.tolist()))

    def wait(self) -> None:
        """Until all ranks are here."""
        self.highest([0])

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within, an error of communication names this rank and, where it can be known, the one that is gone."""
        try:
            yield
        except RuntimeError as error:
            gone = self.gone() if self.size > 1 else []
            if not gone and not of_communication(error):
                raise
            whom = f"rank {' and '.join(map(str, gone))} is gone" if gone else f"another rank does not answer ({error})"
            way_out = "`transduce train --resume RUN` under torchrun goes on from the last checkpoint"
            raise RunError(f"rank {self.rank} of {self.size}: {whom}: {way_out}") from error

    def gone(self) -> list[int]:
        """The ranks of this machine whose process has ended; one that is ending is waited for."""
        end = time.monotonic() + ENDING
        while True:
            here = self.peers[self.rank][0] if self.peers else 0
            found = [rank for rank, (host, number) in enumerate(self.peers) if host == here and not _lives(number)]
            if found or time.monotonic() >= end:
                return found
            time.sleep(0.05)


ALONE = World()


@contextmanager
def joined() -> Iterator[World]:
    """The processes that torchrun started, once they have met; alone without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield ALONE
        return
    rank, cuda = int(os.environ["RANK"]), torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
        dist.init_process_group(backend, store=_store(), rank=rank, world_size=size, timeout=TIMEOUT)
        world = World(
            rank=rank,
            size=size,
            local_size=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
            peers=_peers(size),
            patient=dist.new_group(backend="gloo", timeout=PATIENCE),
        )
    except (RuntimeError, ValueError) as error:
        raise RunError(f"rank {rank} of {size}: cannot meet the others: {error}: start them by torchrun") from error
    yield world
    dist.destroy_process_group()  # not after an error: others may never answer, and the end of the process tells them
    time.sleep(LETTING_GO)  # a thread that is late to this needs Python, and aborts a process whose Python is gone


def restarted() -> bool:
    """Whether torchrun has started these processes again after a failure (its --max-restarts)."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The same tensors in the same order, those of one kind together as long as they are no more than a bucket."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        others = bucket and (bucket[0].dtype, bucket[0].device) != (tensor.dtype, tensor.device)
        if others or sum(each.nbytes for each in bucket) + tensor.nbytes > BUCKET:
            if bucket:
                yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def of_communication(error: RuntimeError) -> bool:
    """Whether an error is about a peer; gloo's have no class of their own."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()


def _store() -> Store:
    """Where the processes find each other's addresses.

    On one machine torchrun keeps the same store when it starts them again: without a name for each start they would
    find the addresses of those that are gone. Several machines count their starts differently, and get a new store.
    """
    store: Store = next(rendezvous("env://", timeout=TIMEOUT))[0]
    if os.environ.get("GROUP_WORLD_SIZE") != "1":
        return store
    return PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _peers(size: int) -> tuple[tuple[int, int], ...]:
    own = torch.tensor([zlib.crc32(socket.gethostname().encode()), os.getpid()])
    found = [torch.empty_like(own) for _ in range(size)]
    dist.all_gather(found, own)
    return tuple((int(host), int(number)) for host, number in found)


def _lives(number: int) -> bool:
    """Whether a process of this machine runs; one that is dead but not yet buried by its parent does not."""
    try:
        status = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return not Path("/proc/self/stat").exists()
    return status.rpartition(")")[2].split()[0] not in "ZX"
