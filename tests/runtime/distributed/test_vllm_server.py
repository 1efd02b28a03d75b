"""The life cycle of a stage's vLLM server, with a fake server.

test_vllm_server_live.py uses vLLM itself, if it is installed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.compiler.checks.trl_args import config_arguments
from posttrain.runtime.distributed import vllm_server
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.events import EventWriter
from posttrain.runtime.step_context import StepContext, StopRequest
from posttrain.spec.plan import Launch, Resources, SourceLocation, Step

LAUNCH = Launch(
    processes=2,
    strategy="ddp",
    engine="vllm",
    rollouts={
        "mode": "server",
        "gpus": 4,
        "gpu_memory_utilization": 0.8,
        "tensor_parallel_size": 2,
        "enable_sleep_mode": None,
    },
)
ROOM = 512
# Responds like vLLM when it is up, and has a child process like vLLM.
HEALTHY_SERVER = """\
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
FAILING_SERVER = "import sys; print('no kernel image for this GPU'); sys.exit(3)"


@pytest.fixture
def context(tmp_path: Path) -> StepContext:
    return context_in(tmp_path)


def context_in(tmp_path: Path) -> StepContext:
    (tmp_path / "record").mkdir()
    (tmp_path / "base").mkdir()
    step = Step(
        id="it",
        kind="train",
        entry="",
        params={},
        place=SourceLocation(file="recipe.yaml", line=1, column=1),
        key="",
        key_parts={},
        key_values={},
        secrets=("TOKEN",),
        launch=LAUNCH.model_copy(update={"processes": 1, "strategy": "single"}),
        resources=Resources(gpus=5),
    )
    return StepContext(
        step=step,
        params=SimpleNamespace(seed=3),
        inputs={"model": tmp_path / "base"},
        files={},
        out=tmp_path / "files",
        work=tmp_path,
        events=EventWriter(tmp_path / "record" / "events.jsonl"),
    )


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace vLLM by a fake server."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))

    def line(_folder: Path, port: int, *_: Any) -> list[str]:
        return ["stand_in", str(port)]

    def use(program: str) -> None:
        (tmp_path / "stand_in.py").write_text(program)
        monkeypatch.setattr(vllm_server, "server_command", line)

    return use


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def is_running(pid: int) -> bool:
    until = time.monotonic() + 30
    while not is_gone(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return is_gone(pid)


def child_pid(work: Path) -> int:
    return int((work / "record" / vllm_server.LOG).read_text().split()[1])


def test_the_server_has_the_last_gpus() -> None:
    assert vllm_server.split_gpus(LAUNCH, None) == ("0,1", "2,3,4,5")
    assert vllm_server.split_gpus(LAUNCH, "7,6,5,4,3,2") == ("7,6", "5,4,3,2")
    with pytest.raises(
        StepError, match="needs 6 GPUs for training and the vLLM server, but the stage sees 2"
    ):
        vllm_server.split_gpus(LAUNCH, "0,1")


def test_the_server_is_in_no_group_and_sees_no_secret(
    context: StepContext, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOKEN", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("POSTTRAIN_SECRETS", ",".join(context.step.secrets))  # as the runner does
    stand_in("import json, os; print(json.dumps(dict(os.environ)))")
    with pytest.raises(StepError), vllm_server.run_vllm_server(context, ROOM, 0):
        pass
    seen: dict[str, Any] = json.loads((context.work / "record" / vllm_server.LOG).read_text())
    assert not {"TOKEN", "MASTER_PORT"} & set(seen)
    assert seen["CUDA_VISIBLE_DEVICES"] == "1,2,3,4"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"


@pytest.mark.parametrize("kind", ["GRPOConfig", "RLOOConfig"])
def test_it_is_up_while_the_stage_runs_and_gone_after_it(
    kind: str, context: StepContext, stand_in: Callable[[str], None]
) -> None:
    stand_in(HEALTHY_SERVER)
    with vllm_server.run_vllm_server(context, ROOM, 0) as arguments:
        assert arguments.keys() == {"vllm_server_base_url", "vllm_group_port"}
        assert arguments.keys() <= config_arguments(kind).keys()
        assert not is_gone(child_pid(context.work))
    assert is_running(child_pid(context.work))


def test_a_server_that_does_not_start_is_told_with_its_last_words(
    context: StepContext, stand_in: Callable[[str], None]
) -> None:
    stand_in(FAILING_SERVER)
    with (
        pytest.raises(StepError, match="the vLLM server exited with status 3") as raised,
        vllm_server.run_vllm_server(context, ROOM, 0),
    ):
        pass
    assert "no kernel image for this GPU" in raised.value.advice


def request_until_lost(how: str = "") -> None:
    mine = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    server = next(int(pid) for pid in mine if "stand_in" in Path(f"/proc/{pid}/cmdline").read_text())
    os.kill(server, signal.SIGKILL)
    os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
    if how:  # as a trainer fails when it requests completions
        raise ConnectionError(how)


def test_a_server_that_dies_is_what_the_stage_fails_by(
    context: StepContext, stand_in: Callable[[str], None]
) -> None:
    stand_in(HEALTHY_SERVER)
    with (
        pytest.raises(StepError, match="the vLLM server was killed by signal 9"),
        vllm_server.run_vllm_server(context, ROOM, 0),
    ):
        request_until_lost("refused")
    assert is_running(child_pid(context.work))


WAITING_TRAINER = """\
import os, sys
from dataclasses import replace
from pathlib import Path
from tests.runtime.distributed import test_vllm_server as here
from posttrain.runtime.distributed import vllm_server

work = Path(sys.argv[1])
vllm_server._GRACE_SECONDS = 0.5
vllm_server.server_command = lambda *_: ["stand_in", str(_[1])]
with vllm_server.run_vllm_server(here.context_in(work), here.ROOM, 0):
    here.request_until_lost()
    os.read(os.pipe()[0], 1)  # as NCCL waits for one that is gone: for good
"""


def test_a_server_that_dies_while_the_trainer_waits_for_it_ends_the_stage(tmp_path: Path) -> None:
    """A weight transfer to a dead server never returns."""
    (tmp_path / "stand_in.py").write_text(HEALTHY_SERVER)
    root = str(Path(__file__).parents[3])
    found = os.pathsep.join([str(tmp_path), root, *sys.path])
    line = [sys.executable, "-c", WAITING_TRAINER, str(tmp_path)]
    given = {**os.environ, "PYTHONPATH": found, "CUDA_VISIBLE_DEVICES": "0,1,2,3,4"}
    done = subprocess.run(line, env=given, timeout=120, check=False)
    assert done.returncode == 1
    failure = json.loads((tmp_path / "failure.json").read_text())
    assert failure["message"] == "the vLLM server was killed by signal 9"
    assert failure["retriable"] is True
    assert is_running(child_pid(tmp_path))


def test_a_server_that_ends_by_itself_says_that_its_engine_did(
    context: StepContext, stand_in: Callable[[str], None]
) -> None:
    """vLLM exits with status 0 a few seconds after a process of its engine dies."""
    stand_in("pass")
    with (
        pytest.raises(StepError, match="the vLLM server exited because its engine died") as raised,
        vllm_server.run_vllm_server(context, ROOM, 0),
    ):
        pass
    assert raised.value.retriable


def test_a_stage_that_is_asked_to_stop_waits_for_no_server(
    context: StepContext, stand_in: Callable[[str], None]
) -> None:
    stand_in("import time; time.sleep(600)")
    with (
        pytest.raises(Interrupted),
        vllm_server.run_vllm_server(replace(context, stop=StopRequest(requested=True)), ROOM, 0),
    ):
        pass


def test_a_stage_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    script = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from posttrain.runtime.distributed.vllm_server import start_server\n"
        "server = start_server(['http.server', '0'], os.environ, '', Path(sys.argv[1]))\n"
        "print(server.process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, check=False)
    assert done.returncode == -signal.SIGKILL
    assert is_running(int(done.stdout))


def test_other_plans_have_no_server(context: StepContext) -> None:
    step = context.step.model_copy(
        update={"launch": LAUNCH.model_copy(update={"rollouts": {"mode": "colocate"}})}
    )
    with vllm_server.run_vllm_server(replace(context, step=step), ROOM, 0) as arguments:
        assert arguments == {}
