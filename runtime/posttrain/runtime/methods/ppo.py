"""Proximal policy optimisation, with a value model: its parameters are declared, its trainer is not there.

TRL has had no PPO trainer since 1.13, so this one will be posttrain's own.
"""

from typing import ClassVar

from pydantic import Field

from posttrain.runtime.context import Context
from posttrain.runtime.faults import StepFault
from posttrain.runtime.training.params import NEUTRAL, STACK, TrainingParams, divided
from posttrain.spec.extension import Footprint, Method, Schedule


class Ppo(TrainingParams):
    usual_rate: ClassVar[float] = 1e-6

    steps: int = Field(ge=1, description="Optimizer steps.")
    batch: int = Field(default=64, ge=1, description="Completions in an optimizer step.")
    minibatches: int = Field(default=1, ge=1, description="Optimizer steps from one set of completions.")
    iterations: int = Field(default=4, ge=1, description="Times each set of completions is learnt from.")
    max_tokens: int = Field(default=256, ge=1, description="The longest completion, in tokens.")
    temperature: float = Field(default=1.0, gt=0, description="The temperature of the sampling.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus sampling's mass.")
    beta: float = Field(default=0.05, ge=0, description="The weight of the KL divergence in the reward.")
    epsilon: float = Field(default=0.2, gt=0, description="How far a probability ratio counts.")
    value_epsilon: float = Field(default=0.2, gt=0, description="How far a value may move at once.")
    value_weight: float = Field(default=0.1, gt=0, description="The weight of the value model's loss.")
    value_rate: float | None = Field(
        default=None, gt=0, description="The value model's learning rate; the policy's when not given."
    )
    gamma: float = Field(default=1.0, gt=0, le=1, description="The discount of later rewards.")
    lam: float = Field(default=0.95, ge=0, le=1, description="GAE's lambda.")


def schedule(params: Ppo, rows: int) -> Schedule:
    divided(params.batch, params.micro_batch)
    if rows < params.batch * params.minibatches:
        wanted = params.batch * params.minibatches
        raise ValueError(f"{wanted} prompts are wanted at once, and the data has {rows}")
    boundary = params.minibatches * params.iterations
    return Schedule(steps=params.steps, boundary=boundary, rows_per_step=params.batch)


EXTENSION = Method(
    name="ppo",
    summary="Proximal policy optimisation with a value model; it cannot run yet.",
    params=Ppo,
    stack=STACK,
    neutral=NEUTRAL,
    accepts=({"prompt": "text"}, {"prompt": "messages"}),
    footprint=Footprint(
        loss="chunked", reference=lambda _: True, writes=lambda p: p.batch * p.minibatches, values=True
    ),
    schedule=schedule,
    needs_reward=True,
    needs_reference=True,
)


def run(context: Context) -> None:
    raise StepFault(
        "`ppo` cannot run yet: this release declares its parameters alone",
        "train with grpo or rloo, which learn from the same reward without a value model",
    )
