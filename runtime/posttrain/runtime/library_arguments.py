"""Maps recipe keys to the arguments of TRL, transformers, PEFT, vLLM and lm-eval that they correspond to.

A key with the meaning of a library argument has the same name and the same values, so that settings can be
copied from a script. `LIBRARY_ARGUMENTS` lists the keys of every declaration that reaches a library. An entry
is one of three:

- `same(...)`: the argument of the same name, in these classes or functions. Values are passed unchanged.
- `differs(..., reason=...)`: an argument with another name or other values, and the reason.
- `own(reason)`: no library has a counterpart, and the reason.

`tests/runtime/methods/test_library_arguments.py` checks the table against the declarations, the installed
libraries and the arguments that the trainers receive.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Argument(NamedTuple):
    # `module:Class.argument` or `module:function.argument`; without `.argument` if the name is the same.
    targets: tuple[str, ...]
    # Why the name or the values differ, or why no library has a counterpart; empty for `same`.
    reason: str = ""

    @property
    def same_name(self) -> bool:
        return bool(self.targets) and not self.reason


def same(*targets: str) -> Argument:
    return Argument(targets)


def differs(*targets: str, reason: str) -> Argument:
    return Argument(targets, reason)


def own(reason: str) -> Argument:
    return Argument((), reason)


_TRAINING = "transformers:TrainingArguments"
_DPO = "trl:DPOConfig"
_KTO = "trl:KTOConfig"
_GRPO = "trl:GRPOConfig"
_RLOO = "trl:RLOOConfig"
_CPO = "trl.experimental.cpo:CPOConfig"
_ORPO = "trl.experimental.orpo:ORPOConfig"
_REWARD = "trl:RewardConfig"
_LORA = "peft:LoraConfig"
# TRL's last PPO trainer is in release 1.12; the installed release has none.
_PPO = "trl-1.12:PPOConfig"
_CONFIG = "transformers:Qwen2Config"
_SAMPLING = "vllm:SamplingParams"

_BATCH = differs(
    f"{_TRAINING}.per_device_train_batch_size",
    f"{_TRAINING}.gradient_accumulation_steps",
    reason=(
        "the batch of an optimizer step over all devices: the recipe sets it, the compiler divides it by the"
        " number of devices and accumulation steps"
    ),
)
_EPOCHS = differs(
    f"{_TRAINING}.num_train_epochs",
    reason=(
        "passed as max_steps, which the plan computes from the number of rows; the last step of an epoch may"
        " be smaller"
    ),
)
_MAX_STEPS = same(_TRAINING)

LIBRARY_ARGUMENTS: Mapping[str, Mapping[str, Argument]] = {
    "TrainingParams": {
        "learning_rate": same(_TRAINING),
        "lr_scheduler_type": same(_TRAINING),
        "warmup_steps": same(_TRAINING),
        "min_lr_ratio": differs(
            f"{_TRAINING}.lr_scheduler_kwargs",
            reason="the schedule determines the key: min_lr_rate, min_lr_ratio or lr_end",
        ),
        "decay_ratio": differs(
            f"{_TRAINING}.lr_scheduler_kwargs",
            reason=(
                "lr_scheduler_kwargs takes num_decay_steps, a number of steps that depends on the length of"
                " the run"
            ),
        ),
        "weight_decay": same(_TRAINING),
        "max_grad_norm": same(_TRAINING),
        "micro_batch_size": differs(
            f"{_TRAINING}.per_device_train_batch_size",
            reason="rows in memory at once on one device; TRL counts other units for pairs and rollouts",
        ),
        "precision": differs(
            f"{_TRAINING}.bf16",
            f"{_TRAINING}.fp16",
            reason="one key with the name of the dtype instead of two mutually exclusive flags",
        ),
        "gradient_checkpointing": same(_TRAINING),
        "save_steps": differs(
            f"{_TRAINING}.save_steps",
            reason="an integer; rounded up to a step from which the method resumes exactly",
        ),
        "save_total_limit": differs(
            f"{_TRAINING}.save_total_limit",
            reason="the best checkpoint is kept in addition; transformers counts it",
        ),
    },
    "TrlParams": {"use_liger_kernel": same(_TRAINING), "torch_compile": same(_TRAINING)},
    "RowParams": {
        "epochs": _EPOCHS,
        "max_steps": _MAX_STEPS,
        "batch_size": _BATCH,
        "max_length": same("trl:SFTConfig", _DPO, _KTO, _CPO, _ORPO, _REWARD),
    },
    "PromptParams": {"max_steps": _MAX_STEPS, "epochs": _EPOCHS},
    "ReferenceParams": {
        "ref_model_sync_steps": same(_DPO, _KTO, _GRPO, _RLOO),
        "ref_model_mixup_alpha": same(_DPO, _KTO, _GRPO, _RLOO),
    },
    "SftParams": {
        "packing": same("trl:SFTConfig"),
        "loss_on": differs(
            "trl:SFTConfig.completion_only_loss",
            "trl:SFTConfig.assistant_only_loss",
            reason="one key for prompt-completion rows and for conversations",
        ),
    },
    "RewardModelParams": {"batch_size": _BATCH, "center_rewards_coefficient": same(_REWARD)},
    "DpoParams": {
        "batch_size": _BATCH,
        "beta": same(_DPO),
        "loss_type": same(_DPO),
        "loss_weights": same(_DPO),
        "label_smoothing": same(_DPO),
    },
    "IpoParams": {"batch_size": _BATCH, "beta": same(_DPO)},
    "KtoParams": {
        "batch_size": _BATCH,
        "beta": same(_KTO),
        "loss_type": same(_KTO),
        "desirable_weight": same(_KTO),
        "undesirable_weight": same(_KTO),
    },
    "OrpoParams": {"batch_size": _BATCH, "beta": same(_ORPO)},
    "CpoParams": {
        "batch_size": _BATCH,
        "beta": same(_CPO),
        "loss_type": same(_CPO),
        "cpo_alpha": same(_CPO),
        "label_smoothing": same(_CPO),
    },
    "SimpoParams": {"batch_size": _BATCH, "beta": same(_CPO), "simpo_gamma": same(_CPO)},
    # Of grpo, rloo and ppo. TRL's last PPO trainer has `response_length`, and samples from all tokens.
    "CompletionParams": {
        "max_completion_length": same(_GRPO, _RLOO),
        "temperature": same(_GRPO, _RLOO, _PPO),
        "top_p": same(_GRPO, _RLOO),
    },
    "RolloutParams": {
        "num_prompts": differs(
            f"{_TRAINING}.per_device_train_batch_size",
            reason=(
                "TRL counts the completions on one device; this key counts the prompts of an optimizer step"
                " over all devices"
            ),
        ),
        "num_generations": same(_GRPO, _RLOO),
        "top_k": same(_GRPO, _RLOO),
        "min_p": same(_GRPO, _RLOO),
        "beta": same(_GRPO, _RLOO),
        "epsilon": same(_GRPO, _RLOO),
        "epsilon_high": same(_GRPO, _RLOO),
        "num_iterations": same(_GRPO, _RLOO),
        "optimizer_steps_per_generation": differs(
            f"{_GRPO}.steps_per_generation",
            f"{_RLOO}.steps_per_generation",
            reason=(
                "TRL counts micro-steps, so its value depends on the micro-batch size; this key does not"
            ),
        ),
        "mask_truncated_completions": same(_GRPO, _RLOO),
        "on_constant_reward": own("TRL continues without a warning when the reward never varies"),
        "constant_reward_steps": own("the threshold of on_constant_reward"),
    },
    "GrpoParams": {
        "epsilon_high": same(_GRPO),
        "delta": same(_GRPO),
        "loss_type": same(_GRPO),
        "scale_rewards": same(_GRPO),
        "importance_sampling_level": same(_GRPO),
        "entropy_coef": same(_GRPO),
    },
    "RlooParams": {
        "beta": same(_RLOO),
        "normalize_advantages": same(_RLOO),
        "reward_clip_range": same(_RLOO),
    },
    # Our own trainer, with the names of TRL's last PPO trainer.
    "PpoParams": {
        "batch_size": _BATCH,
        "num_mini_batches": differs(
            f"{_PPO}.num_mini_batches",
            reason="it multiplies the batch size to get the rollout size, instead of dividing a batch",
        ),
        "num_ppo_epochs": same(_PPO),
        "kl_coef": same(_PPO),
        "kl_estimator": differs(f"{_PPO}.kl_estimator", reason="k2 is added to TRL's k1 and k3"),
        "kl_target": own("TRL's last PPO trainer has a fixed kl_coef"),
        "kl_horizon": own("the adaptation speed for kl_target"),
        "cliprange": same(_PPO),
        "cliprange_high": own("TRL clips the ratio symmetrically"),
        "value_model": own("TRL always trains a separate value model"),
        "cliprange_value": same(_PPO),
        "vf_coef": same(_PPO),
        "critic_learning_rate": own("named as in OpenRLHF; TRL trains both models at the same rate"),
        "gamma": same(_PPO),
        "lam": same(_PPO),
        "whiten_advantages": own("TRL always whitens advantages; its whiten_rewards affects the rewards"),
        "entropy_coef": own("named as in TRL's GRPO; its last PPO trainer has no entropy bonus"),
        "mask_truncated_completions": own("named as in TRL's GRPO"),
        "missing_eos_penalty": same(_PPO),
        "on_constant_reward": own("TRL continues without a warning when the reward never varies"),
        "constant_reward_steps": own("the threshold of on_constant_reward"),
    },
    "Adapter": {
        "type": differs(
            f"{_LORA}.peft_type",
            reason="it also covers full-weight training (full) and a quantized base model (qlora)",
        ),
        "trainable": own("named as in the recipes of other tools; transformers has requires_grad"),
        "freeze": own("transformers has requires_grad"),
        "r": same(_LORA),
        "lora_alpha": same(_LORA),
        "use_rslora": same(_LORA),
        "use_dora": same(_LORA),
        "lora_dropout": same(_LORA),
        "init_lora_weights": same(_LORA),
        "loraplus_lr_ratio": own("an argument of PEFT's create_loraplus_optimizer"),
        "bias": same(_LORA),
        "target_modules": same(_LORA),
        "rank_pattern": same(_LORA),
        "alpha_pattern": same(_LORA),
        "layers_to_transform": same(_LORA),
        "layers_pattern": same(_LORA),
        "modules_to_save": same(_LORA),
        "trainable_token_indices": same(_LORA),
        "feedforward_modules": same("peft:IA3Config"),
        "oft_block_size": same("peft:OFTConfig"),
        "use_cayley_neumann": same("peft:OFTConfig"),
        "module_dropout": same("peft:OFTConfig"),
        "vera_dropout": same("peft:VeraConfig"),
        "d_initial": same("peft:VeraConfig"),
        "projection_prng_key": same("peft:VeraConfig"),
        "existing_adapter": own("PEFT has no option for a model that already has an adapter"),
    },
    "RandomInit": {
        "model_type": same(_CONFIG),
        "num_hidden_layers": same(_CONFIG),
        "hidden_size": same(_CONFIG),
        "num_attention_heads": same(_CONFIG),
        "num_key_value_heads": same(_CONFIG),
        "intermediate_size": same(_CONFIG),
        "max_position_embeddings": same(_CONFIG),
        "rope_theta": differs(
            f"{_CONFIG}.rope_parameters", reason="transformers expects it inside rope_parameters"
        ),
        "initializer_range": same(_CONFIG),
        "tie_word_embeddings": same(_CONFIG),
    },
    "Sampling": {
        "temperature": same(_SAMPLING, "transformers:GenerationConfig"),
        "top_p": same(_SAMPLING, "transformers:GenerationConfig"),
        "top_k": same(_SAMPLING, "transformers:GenerationConfig"),
        "min_p": same(_SAMPLING, "transformers:GenerationConfig"),
        "repetition_penalty": same(_SAMPLING, "transformers:GenerationConfig"),
        "generation_config": own(
            "vLLM's option of this name selects a file for one engine; this one covers every engine"
        ),
        "max_tokens": same(_SAMPLING),
        "n": same(_SAMPLING),
        "seed": differs(f"{_SAMPLING}.seed", reason="each prompt gets a seed derived from this one"),
        "stop": differs(f"{_SAMPLING}.stop", reason="the string stays in the completion; vLLM removes it"),
        "batch_size": own("vLLM forms batches itself; transformers generates the batch that it receives"),
        "continuous_batching": own("transformers has the method generate_batch instead of an argument"),
    },
    "Rollouts": {
        "engine": differs(f"{_GRPO}.use_vllm", reason="the name of the engine instead of a flag"),
        "mode": differs(
            f"{_GRPO}.vllm_mode", reason="without the prefix, which the section `rollouts` implies"
        ),
        "gpus": own("TRL's users start the vLLM server; here the stage starts it on its own GPUs"),
        "gpu_memory_utilization": same("vllm:EngineArgs"),
        "tensor_parallel_size": same("vllm:EngineArgs"),
        "enable_sleep_mode": same("vllm:EngineArgs"),
    },
    "Placement": {
        "num_processes": same("accelerate.commands.launch:launch_command_parser"),
        "strategy": own("accelerate and DeepSpeed use configuration files, which the plan generates"),
        "rollouts": own("a section"),
    },
    "InLoopEval": {
        "eval_steps": differs(
            f"{_TRAINING}.eval_steps",
            reason="an integer; rounded up to a step from which the method resumes exactly",
        ),
        "data": differs("trl:SFTTrainer.eval_dataset", reason="the name of a dataset of the recipe"),
        "evals": own("eval stages of the recipe; TRL evaluates only the loss on rows"),
        "metric_for_best_model": same(_TRAINING),
        "greater_is_better": same(_TRAINING),
        "early_stopping_threshold": differs(
            "transformers:EarlyStoppingCallback.early_stopping_threshold",
            reason="the threshold also decides which weights are best, unlike in transformers",
        ),
        "keep": differs(
            f"{_TRAINING}.load_best_model_at_end",
            reason="the name of the weights that the product contains instead of a flag",
        ),
        "early_stopping_patience": differs(
            "transformers:EarlyStoppingCallback.early_stopping_patience",
            reason="counts evaluations that do not beat the last best by the threshold",
        ),
    },
    "FewShot": {
        "data": differs(
            "lm_eval.api.task:TaskConfig.fewshot_split", reason="any dataset of the recipe, not only a split"
        ),
        "num_fewshot": same("lm_eval.api.task:TaskConfig"),
        "answer": differs("lm_eval.api.task:TaskConfig.doc_to_target", reason="a column, not a template"),
        "target_delimiter": same("lm_eval.api.task:TaskConfig"),
        "fewshot_delimiter": same("lm_eval.api.task:TaskConfig"),
    },
    "Benchmark": {
        "benchmark": differs("lm_eval:simple_evaluate.model", reason="models of the recipe"),
        "tasks": same("lm_eval:simple_evaluate"),
        "files": own("lm-eval takes a folder, include_path"),
        "num_fewshot": same("lm_eval:simple_evaluate"),
        "limit": same("lm_eval:simple_evaluate"),
        "prompts": differs(
            "lm_eval:simple_evaluate.apply_chat_template",
            reason="the key that evals and generation have",
        ),
        "batch_size": same("lm_eval:simple_evaluate"),
        "revisions": own("lm-eval reads the newest data"),
        "confirm_run_unsafe_code": same("lm_eval:simple_evaluate"),
    },
}
