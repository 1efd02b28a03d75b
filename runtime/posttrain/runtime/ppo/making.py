"""Makes the trainer of a stage from its parameters."""

from collections.abc import Callable
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.environments.opening import declared, opened
from posttrain.runtime.ppo.acting import Stage
from posttrain.runtime.ppo.experience import Terms
from posttrain.runtime.ppo.learning import Learner, Ways
from posttrain.runtime.ppo.models import policy_of, reference_of
from posttrain.runtime.ppo.pair import paired
from posttrain.runtime.ppo.trainer import Setup, trainer_of
from posttrain.runtime.ppo.turns import Turns
from posttrain.runtime.training.loop import Loop
from posttrain.runtime.training.params import divided


def trainer_for(
    params: Any, loop: Loop, data: Any, score: Callable[..., list[float | None]], value_rate: float
) -> Any:
    """The trainer, ready for the loop. `params` are the method's."""
    from transformers import TrainingArguments

    seed = loop.context.params["seed"]
    policy = policy_of(loop.start, seed)
    reference = reference_of(loop.context, policy, params.beta)
    rows = data.to_list()
    stage = _stage(loop.context)

    def learner(trainer: Any) -> Learner:
        turns = _turns(params, trainer, seed, len(rows))
        terms = _terms(params, trainer)
        return Learner(trainer, turns, _ways(params), terms, rows, reference, score, stage)

    batch = {
        "per_device_train_batch_size": params.micro_batch or params.batch,
        "gradient_accumulation_steps": divided(params.batch, params.micro_batch),
    }
    return trainer_of(
        Setup(
            pair=paired(policy, params.value_model, params.temperature, params.entropy > 0),
            tokenizer=loop.start.tokenizer,
            rows=data,
            arguments=TrainingArguments(**loop.arguments(batch)),
            value_rate=value_rate,
            learner=learner,
        )
    )


def _stage(context: Context) -> Stage | None:
    return None if declared(context) is None else Stage(world=opened(context), seed=context.params["seed"])


def _turns(params: Any, trainer: Any, seed: int, rows: int) -> Turns:
    return Turns(
        seed=seed,
        rows=rows,
        micro_batch=trainer.args.per_device_train_batch_size,
        accumulation=trainer.args.gradient_accumulation_steps,
        minibatches=params.minibatches,
        iterations=params.iterations,
        rank=trainer.accelerator.process_index,
        processes=trainer.accelerator.num_processes,
    )


def _ways(params: Any) -> Ways:
    return Ways(
        sampling={
            "temperature": params.temperature,
            "top_p": params.top_p,
            "max_new_tokens": params.max_tokens,
        },
        low=params.epsilon,
        high=params.epsilon if params.epsilon_high is None else params.epsilon_high,
        value_epsilon=params.value_epsilon,
        value_weight=params.value_weight,
        entropy=params.entropy,
        target=params.kl_target,
        horizon=params.kl_horizon,
    )


def _terms(params: Any, trainer: Any) -> Terms:
    return Terms(
        beta=params.beta,
        estimator=params.kl,
        gamma=params.gamma,
        lam=params.lam,
        whiten=params.whiten,
        skip_cut=params.skip_cut,
        cut_penalty=params.cut_penalty,
        total=lambda part: trainer.accelerator.reduce(part, reduction="sum"),
    )
