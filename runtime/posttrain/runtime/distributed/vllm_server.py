"""Starts, monitors and stops the vLLM server of a stage, which runs on its own GPUs.

The server is TRL's `vllm-serve`, which configures vLLM for TRL's trainers. Tested with vLLM's CPU build,
except for the weight transfer, which needs NCCL; not tested on GPUs. See docs/vllm.md for the results.
"""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.child_process import supervised_command
from posttrain.runtime.distributed.process_group import broadcast, is_rank_zero
from posttrain.runtime.distributed.vllm_rollouts import NO_USAGE_STATS
from posttrain.runtime.distributed.watchdog import watch_process
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.models import peft_adapters
from posttrain.runtime.process_environment import subprocess_environment
from posttrain.runtime.step_context import StepContext
from posttrain.spec.keys import digest
from posttrain.spec.plan import Launch
from posttrain.spec.step_params.train_params import TrainStepParams

LOG = "vllm.log"
HOST = "127.0.0.1"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy within a step
START_SECONDS = 1200.0  # time to load the weights and compile
_STOP_SECONDS = 30.0
_GRACE_SECONDS = 30.0  # time for the trainer to fail by itself after the server has exited
_POLL_SECONDS = 0.2
_LOG_TAIL_CHARS = 800  # length of the log excerpt in an error message


@dataclass(frozen=True)
class VllmServer:
    process: subprocess.Popen[bytes]
    url: str
    log: Path


@contextmanager
def run_vllm_server(context: StepContext[TrainStepParams], room: int, step: int) -> Generator[dict[str, Any]]:
    """Run the server in this context and yield the trainer arguments for it; none if the plan has no server.

    `room` is the maximum sequence length in tokens, `step` the step from which the trainer starts.
    """
    launch = context.step.launch
    if launch.engine != "vllm" or launch.rollouts.get("mode") != "server":
        yield {}
        return
    ours, its = split_gpus(launch, os.environ.get("CUDA_VISIBLE_DEVICES"))
    port, group_port = broadcast((free_port(), free_port()))
    url = f"http://{HOST}:{port}"
    arguments = server_arguments(url, group_port)
    # The trainer's address for the weight transfer. By default vLLM uses the machine's external address.
    os.environ |= {"VLLM_HOST_IP": HOST}
    if launch.processes == 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = ours  # a single process would use all visible GPUs
    if not is_rank_zero():
        broadcast(None)  # wait until the server is up
        yield arguments
        return
    line = server_command(full_weights_dir(context), port, launch, room, server_seed(context, step))
    server = start_server(line, server_environment(its), url, context.work)
    try:
        _wait_until_healthy(server, context)
        broadcast(None)
        with watch_process(server.process, context.work, lambda: _stop_and_report(server), _GRACE_SECONDS):
            yield arguments
    except Exception as error:
        if server.process.poll() is not None and not isinstance(error, Interrupted | StepError):
            raise exit_error(server) from error
        raise
    finally:
        stop_server(server)


def server_seed(context: StepContext[TrainStepParams], step: int) -> int:
    """Return a seed for the step from which the training starts, so that a resumed run does not repeat the
    completions of earlier steps."""
    return int(digest([context.params.seed, step])[:7], 16)


def server_arguments(url: str, group_port: int) -> dict[str, Any]:
    """Return the trainer arguments for a server."""
    return {"vllm_server_base_url": url, "vllm_group_port": group_port}


def split_gpus(launch: Launch, visible: str | None) -> tuple[str, str]:
    """Return the GPUs of the training, and those of the server, which are the last ones."""
    count = launch.processes + launch.rollouts["gpus"]
    gpus = visible_gpus(visible, count)
    if len(gpus) < count:
        raise StepError(
            f"the plan needs {count} GPUs for training and the vLLM server, but the stage sees {len(gpus)}",
            "free more GPUs, or set `placement: {rollouts: {mode: colocate}}`",
        )
    return ",".join(gpus[: launch.processes]), ",".join(gpus[launch.processes : count])


def visible_gpus(visible: str | None, count: int) -> list[str]:
    """Return the GPUs of CUDA_VISIBLE_DEVICES; if it is not set, the first ones."""
    return visible.split(",") if visible else [str(number) for number in range(count)]


def server_command(
    folder: Path, port: int, launch: Launch, room: int, seed: int, host: str = HOST
) -> list[str]:
    """Return the server's module and arguments, with tensor and data parallelism over its GPUs."""
    rollouts: Mapping[str, Any] = launch.rollouts
    parallel = rollouts.get("tensor_parallel_size") or rollouts["gpus"]
    arguments = {
        "model": folder,
        "host": host,
        "port": port,
        "tensor_parallel_size": parallel,
        "data_parallel_size": rollouts["gpus"] // parallel,
        "gpu_memory_utilization": rollouts.get("gpu_memory_utilization"),
        "max_model_len": room,
        "seed": seed,  # TRL passes it to vLLM unchanged
    }
    options = [
        part for name, value in arguments.items() if value is not None for part in (f"--{name}", str(value))
    ]
    return ["trl.scripts.vllm_serve", *options]


def start_server(line: list[str], environment: Mapping[str, str], url: str, work: Path) -> VllmServer:
    """Start the server, tied to this process: it exits when this process does, even after a crash."""
    log = work / "record" / LOG
    with log.open("ab") as output:
        process = subprocess.Popen(
            supervised_command(*line, end_signal=signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    return VllmServer(process, url, log)


def stop_server(server: VllmServer) -> None:
    """Stop the server and all of its processes."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.process.pid, how)
            server.process.wait(_STOP_SECONDS)
        except ProcessLookupError:
            server.process.poll()
            return
        except subprocess.TimeoutExpired:
            continue


def server_environment(gpus: str) -> dict[str, str]:
    """The variables of the server, which must not join the process group of the training."""
    return {**subprocess_environment(os.environ), **NO_USAGE_STATS, "CUDA_VISIBLE_DEVICES": gpus}


def full_weights_dir(context: StepContext[TrainStepParams]) -> Path:
    """Return full weights of the same shapes; the trainer sends the values before the first completion."""
    folder = context.inputs["model"]
    while peft_adapters.is_adapter(folder):
        folder = peft_adapters.base_model_dir(folder)
    return folder


def free_port(host: str = HOST) -> int:
    with socket.socket() as listener:
        listener.bind((host, 0))
        return listener.getsockname()[1]


def _wait_until_healthy(server: VllmServer, context: StepContext[TrainStepParams]) -> None:
    """Wait until the health check succeeds."""
    context.events.emit("phase", name="starting vLLM")
    until = time.monotonic() + START_SECONDS
    while not is_healthy(server.url):
        if context.stop.requested:
            raise Interrupted
        if server.process.poll() is not None:
            raise exit_error(server)
        if time.monotonic() > until:
            raise start_timeout()
        time.sleep(_POLL_SECONDS)


def start_timeout() -> StepError:
    text = f"the vLLM server did not start within {START_SECONDS:.0f} s"
    return StepError(text, f"see its log in record/{LOG}", retriable=True)


def is_healthy(url: str) -> bool:
    try:
        with _DIRECT.open(f"{url}/health", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def exit_error(server: VllmServer) -> StepError:
    code = server.process.returncode
    last = server.log.read_text(errors="replace")[-_LOG_TAIL_CHARS:].strip()
    advice = f"see its log in record/{LOG}" + (f", which ends with:\n{last}" if last else "")
    return StepError(f"the vLLM server {_describe_exit(code)}", advice, retriable=code <= 0)


def _stop_and_report(server: VllmServer) -> StepError:
    """Stop the remaining processes of a server that has exited, since they may still hold GPU memory."""
    stop_server(server)
    return exit_error(server)


def _describe_exit(code: int) -> str:
    if code == 0:  # nothing asked it to exit: it does so when a process of its engine dies
        return "exited because its engine died"
    return f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
