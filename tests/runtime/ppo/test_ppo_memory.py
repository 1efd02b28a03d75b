"""The compiler's memory formula compared with a measured step of policy, value model and reference."""

import gc
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from posttrain.compiler.facts.parameter_counts import linear_module_names
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.workload import FrozenModel, LoraAdapter, Workload
from posttrain.runtime.ppo.actor_critic import build_actor_critic, frozen_copy
from posttrain.runtime.ppo.ppo_losses import policy_loss, value_loss


def step(workload: Workload, actor_critic: Any) -> Any:
    """One optimizer step of the trainer: both losses, with separate gradient clipping."""
    parts = actor_critic.trainable_parameters()
    optimizer = torch.optim.AdamW([weight for part in parts for weight in part], fused=True)
    tokens = torch.zeros(workload.rows, workload.length, dtype=torch.long)
    attention, count = torch.ones_like(tokens), workload.length // 2
    one = torch.zeros(workload.rows, count)

    def run() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=workload.autocast):
            logprobs, values, _ = actor_critic(tokens, attention, count)
        policy, _ = policy_loss(logprobs, one, one, 0.2, 0.2)
        value, _ = value_loss(values, one, one, 0.5)
        loss = policy.mean() + 0.1 * value.mean()
        del logprobs, values, policy, value
        loss.backward()
        del loss
        for part in parts:
            torch.nn.utils.clip_grad_norm_(part, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return run


def peak_memory(tracer: Any, workload: Workload) -> int:
    """The peak memory of the second step, in which the optimizer has its states."""
    with tracer.emulate_gpu(workload):
        policy = tracer.model_of(workload)
        with torch.device("meta"):
            actor_critic = build_actor_critic(
                policy, "separate" if workload.value_model else "shared", 1.0, False
            ).train()
            held = torch.nn.ModuleList([actor_critic, frozen_copy(policy)])
        with FakeTensorMode(), tracer.StorageTracker() as tracker:
            tracer.fill(held)
            if workload.checkpointing:
                how = {"preserve_rng_state": False, "use_reentrant": False}
                actor_critic.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)
            run = step(workload, actor_critic)
            run()
            tracker.peak = tracker.now
            run()
            peak = tracker.peak
        del policy, actor_critic, held, run
        gc.collect()
    return peak


@pytest.mark.parametrize(
    ("separate", "adapter", "options"),
    [
        (True, False, {}),
        (True, False, {"checkpointing": True}),
        (True, True, {}),
        (False, False, {}),
    ],
)
def test_a_step_takes_what_the_compiler_calculates(
    separate: bool, adapter: bool, options: dict[str, Any], tracer: Any
) -> None:
    """Four layers with the full vocabulary: the head has a larger share of memory than in any real model.

    TRL keeps its gradient in fp32 and PPO does not, but the prediction is never too small.
    """
    shape = find_shape("Qwen/Qwen2.5-0.5B")
    assert shape is not None
    shape = shape._replace(layers=4)
    workload = Workload(
        model=shape,
        length=512,
        rows=8,
        padded=True,
        loss="chunked",
        value_model=shape if separate else None,
        adapter=LoraAdapter(target_modules=linear_module_names(shape)) if adapter else None,
        frozen=() if adapter else (FrozenModel("reference", shape, 2, rows=8),),
        **options,
    )
    found = peak_memory(tracer, workload)
    assert found <= tracer.predict(workload) <= 1.25 * found
