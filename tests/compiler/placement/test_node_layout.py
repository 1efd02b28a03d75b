"""Layouts of a training stage over several nodes: the nodes that it takes, and what is rejected."""

import pytest
from tests.compiler.placement.test_estimate_parts import GRPO, SFT, compile_stage

TWO = "gpus: 4xH100-80GB, nodes: 2"


def launch_of(stage: str, hardware: str) -> tuple[int, int]:
    outcome = compile_stage(stage, hardware=hardware)
    assert outcome.plan is not None, [d.message for d in outcome.diagnostics]
    step = next(step for step in outcome.plan.steps if step.id == "it")
    return step.launch.nodes, step.launch.processes


def placed(placement: str, stage: str = SFT) -> str:
    return stage % f", placement: {{{placement}}}"


@pytest.mark.parametrize(
    ("stage", "hardware", "layout"),
    [
        (SFT % "", TWO, (2, 8)),
        (placed("num_processes: 4"), TWO, (1, 4)),
        (SFT % "", "gpus: 4xH100-80GB", (1, 4)),
        # 64 rows divide over 8 processes, which 3 nodes cannot have equally.
        (SFT % "", "gpus: 3xH100-80GB, nodes: 3", (2, 4)),
        (placed("num_processes: 2"), "nodes: 2", (2, 2)),
        (SFT % "", "nodes: 2", (1, 1)),
        (placed("rollouts: {engine: vllm, mode: server, gpus: 2}", GRPO), TWO, (1, 2)),
    ],
)
def test_a_stage_takes_the_fewest_nodes_that_suffice(
    stage: str, hardware: str, layout: tuple[int, int]
) -> None:
    assert launch_of(stage, hardware) == layout


@pytest.mark.parametrize(
    ("stage", "hardware", "code", "says", "helps"),
    [
        (
            placed("num_processes: 7").replace("64", "70"),
            TWO,
            "PT1006",
            "7 processes need 2 nodes, and do not divide equally",
            "6 or 8",
        ),
        (
            placed("num_processes: 3").replace("64", "66"),
            "nodes: 2",
            "PT1006",
            "3 processes need 2 nodes",
            "2 or 4",
        ),
        (
            placed("rollouts: {engine: vllm, tensor_parallel_size: 8}", GRPO),
            TWO,
            "PT1007",
            "4 GPUs on each of 2 nodes",
            "a divisor of 4",
        ),
        (
            placed("num_processes: 6, rollouts: {engine: vllm, mode: server, gpus: 2}", GRPO).replace(
                "num_prompts: 16", "num_prompts: 18"
            ),
            TWO,
            "PT1007",
            "6 processes need 2 nodes of 4 GPUs, and the vLLM server with 2 GPUs needs another one",
            "`num_processes: 4` at most",
        ),
        (
            placed("num_processes: 2, rollouts: {engine: vllm, mode: server, gpus: 5}", GRPO),
            TWO,
            "PT1007",
            "the vLLM server has 5 GPUs, but a node has 4",
            "to 4 at most",
        ),
    ],
)
def test_layouts_that_the_nodes_cannot_have_are_rejected(
    stage: str, hardware: str, code: str, says: str, helps: str
) -> None:
    found = [d for d in compile_stage(stage, hardware=hardware).diagnostics if d.code == code]
    assert len(found) == 1
    assert says in found[0].message
    assert helps in found[0].help


@pytest.mark.parametrize(
    ("placement", "hardware", "layout"),
    [
        # Nodes that train, processes, nodes of the server, GPUs.
        ("rollouts: {engine: vllm, mode: server, gpus: 2}", TWO, (1, 2, 0, 4)),
        ("num_processes: 4, rollouts: {engine: vllm, mode: server, gpus: 2}", TWO, (1, 4, 1, 6)),
        ("num_processes: 4, rollouts: {engine: vllm, mode: server, gpus: 4}", TWO, (1, 4, 1, 8)),
        ("rollouts: {engine: vllm, mode: server, gpus: 1}", "gpus: 1xH100-80GB, nodes: 2", (1, 1, 1, 2)),
        (
            "num_processes: 8, rollouts: {engine: vllm, mode: server, gpus: 4}",
            "gpus: 4xH100-80GB, nodes: 3",
            (2, 8, 1, 12),
        ),
    ],
)
def test_a_vllm_server_has_a_node_of_its_own_if_the_training_fills_the_others(
    placement: str, hardware: str, layout: tuple[int, ...]
) -> None:
    outcome = compile_stage(placed(placement, GRPO), hardware=hardware)
    assert outcome.plan is not None, [d.message for d in outcome.diagnostics]
    step = next(step for step in outcome.plan.steps if step.id == "it")
    launch = step.launch
    assert (launch.nodes, launch.processes, launch.server_nodes, step.resources.gpus) == layout
    assert launch.all_nodes == layout[0] + layout[2]
    why = " ".join((step.estimate or {})["why"])
    assert ("on a node of its own" in why) == bool(launch.server_nodes)


def test_several_nodes_change_no_key_and_add_memory_for_the_network() -> None:
    outcomes = [
        compile_stage(SFT % "", hardware=h) for h in ("gpus: 8xA100-80GB", "gpus: 4xA100-80GB, nodes: 2")
    ]
    one, two = (next(s for s in o.plan.steps if s.id == "it") for o in outcomes if o.plan is not None)
    assert one.key == two.key
    terms = [{t["name"]: t["gb"] for t in (step.estimate or {})["terms"]} for step in (one, two)]
    assert terms[1]["collectives"] > terms[0]["collectives"]


def test_colocated_vllm_splits_a_model_within_a_node_only() -> None:
    outcome = compile_stage(
        placed("rollouts: {engine: vllm}", GRPO),
        hardware="gpus: 1xL4-24GB, nodes: 2",
        model="Qwen/Qwen3-0.6B",
    )
    assert outcome.plan is not None, [d.message for d in outcome.diagnostics]
    step = next(step for step in outcome.plan.steps if step.id == "it")
    assert step.launch.nodes == 2
    assert step.launch.rollouts["tensor_parallel_size"] == 1
