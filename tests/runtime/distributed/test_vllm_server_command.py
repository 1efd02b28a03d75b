"""The command line of a stage's vLLM server, read by TRL's own parser."""

from pathlib import Path

from tests.runtime.distributed.test_vllm_server import LAUNCH, ROOM
from trl.scripts import vllm_serve

from posttrain.runtime.distributed import vllm_server


def test_trl_makes_of_the_command_what_is_meant() -> None:
    line = vllm_server.server_command(Path("weights"), 8123, LAUNCH, ROOM, 5)
    assert line[0] == vllm_serve.__name__
    args, more = vllm_serve.make_parser().parse_args_and_config(line[1:], return_remaining_strings=True)
    assert more == ["--seed", "5"]
    made = vllm_serve.build_command(args, more)
    assert made[made.index("--max-model-len") + 1] == str(ROOM)
    assert made[-2:] == more
    assert made[3:17] == [
        *("serve", "weights", "--host", "127.0.0.1", "--port", "8123"),
        *("--tensor-parallel-size", "2", "--data-parallel-size", "2"),
        *("--gpu-memory-utilization", "0.8", "--dtype", "auto"),
    ]


def test_what_is_not_said_is_left_to_vllm() -> None:
    launch = LAUNCH.model_copy(update={"rollouts": {"mode": "server", "gpus": 2}})
    line = vllm_server.server_command(Path("weights"), 1, launch, -1, 5)
    divided = ["--tensor_parallel_size", "2", "--data_parallel_size", "1"]
    assert line[7:] == [*divided, "--max_model_len", "-1", "--seed", "5"]
    args = vllm_serve.make_parser().parse_args_and_config(line[1:], return_remaining_strings=True)[0]
    assert args.max_model_len == -1
