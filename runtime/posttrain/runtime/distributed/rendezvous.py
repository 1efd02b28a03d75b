"""Joins a process to the process group of its step: gloo on CPUs, NCCL on GPUs."""

import os
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from posttrain.spec.plan import Step

# The timeout of collective operations. It is long because the other processes wait while rank 0 evaluates,
# merges or saves. A dead process does not cause a wait: the launcher stops the step at once.
_TIMEOUT = timedelta(hours=6)


@dataclass(frozen=True)
class Rendezvous:
    """The address at which the processes of a step meet."""

    world_size: int
    port: int
    # The descriptor of a socket that already listens on the port, on the node of rank 0.
    listener_fd: int | None
    address: str = "127.0.0.1"
    # The number of processes on each node.
    local_size: int = 0
    # The network interface of this node, if libraries would select another one by themselves.
    interface: str | None = None

    def local_rank(self, rank: int) -> int:
        return rank % (self.local_size or self.world_size)


def join_process_group(rank: int, rendezvous: Rendezvous, step: Step) -> None:
    """Become process `rank` of the step's group."""
    # Read by accelerate and DeepSpeed. The address is that of the store below.
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rendezvous.local_rank(rank)),
        "WORLD_SIZE": str(rendezvous.world_size),
        "LOCAL_WORLD_SIZE": str(rendezvous.local_size or rendezvous.world_size),
        "MASTER_ADDR": rendezvous.address,
        "MASTER_PORT": str(rendezvous.port),
    }
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME") if rendezvous.interface else ():
        os.environ.setdefault(name, rendezvous.interface or "")
    if step.resources.gpus == 0:
        os.environ |= {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    import torch

    distributed: Any = import_module("torch.distributed")  # its type stubs lack some of the names

    threads = max(1, step.resources.cpus // rendezvous.world_size)
    torch.set_num_threads(threads)
    _register_numbered_cpus()
    on_gpus = step.resources.gpus > 0
    if on_gpus:
        torch.cuda.set_device(rendezvous.local_rank(rank))
    listener: dict[str, Any] = {"master_listen_fd": rendezvous.listener_fd} if rank == 0 else {}
    store = distributed.TCPStore(
        rendezvous.address, rendezvous.port, rendezvous.world_size, is_master=rank == 0, **listener
    )
    backend = "cpu:gloo,cuda:nccl" if on_gpus else "gloo"
    distributed.init_process_group(
        backend, store=store, rank=rank, world_size=rendezvous.world_size, timeout=_TIMEOUT
    )
    if step.launch.strategy.startswith("zero"):
        _init_deepspeed("nccl" if on_gpus else "gloo")


def _init_deepspeed(backend: str) -> None:
    """Initialize DeepSpeed's process group now. By default DeepSpeed does so when it wraps the model, but the
    reference model is loaded before that and would be sharded over one process."""
    if find_spec("deepspeed") is not None:  # check_strategy_installed reports a missing DeepSpeed
        import_module("deepspeed.comm").init_distributed(dist_backend=backend)


def _register_numbered_cpus() -> None:
    """Let torch load tensors on devices such as `cpu:0`, which multi-process checkpoints contain."""
    import torch

    def mark(storage: Any) -> str | None:
        return None

    def place(storage: Any, location: str) -> Any:
        return storage if location.startswith("cpu:") else None

    torch.serialization.register_package(5, mark, place)
