"""The TRL arguments that posttrain sets itself, and the recipe keys to use instead.

A test compares this table with the arguments that the methods pass.
"""

from collections.abc import Mapping

_SEED = "set the recipe's `seed`"
_BATCH = "set `params.batch_size` and `params.micro_batch_size`"
_STEPS = "set `params.max_steps`, or `params.epochs` where the method has it"
_PRECISION = "set `params.precision`"
_SAVING = "set `params.save_steps` and `params.save_total_limit`: a checkpoint must resume exactly"
_LOGGING = "every step is logged, to the trackers that `tracking` names"
_HUB = "add an `export` stage: stages save their products in the store"
_MODEL = "set it in the declaration of the model, under `models`"
_TOKENS = "the tokenizer defines it: to end turns with it, use {{ eos_token }} in a chat template"
_HARDWARE = "set it under `hardware`: the compiler plans processes and strategy"
_EVALUATION = "write `evaluate: {eval_steps: N, data: NAME.PART}` in the stage, or add an `eval` stage"
_EVALUATION_BATCH = "evaluations use the micro-batch of the training, or single rows"
_RESUME = "posttrain resumes automatically and exactly"
_MICRO = "set `params.micro_batch_size`: the plan needs a fixed batch size"

_SHARED: Mapping[str, str] = {
    "output_dir": "stages save their products in the store",
    "seed": _SEED,
    "data_seed": _SEED,
    "max_steps": _STEPS,
    "num_train_epochs": _STEPS,
    "per_device_train_batch_size": _BATCH,
    "gradient_accumulation_steps": _BATCH,
    "auto_find_batch_size": _MICRO,
    "learning_rate": "set `params.learning_rate`",
    "lr_scheduler_type": "set `params.lr_scheduler_type`",
    "lr_scheduler_kwargs": "set `params.min_lr_ratio` and `params.decay_ratio`",
    "warmup_steps": "set `params.warmup_steps`",
    "warmup_ratio": "set `params.warmup_steps`, where a decimal below 1 is a ratio",
    "weight_decay": "set `params.weight_decay`",
    "max_grad_norm": "set `params.max_grad_norm`",
    "bf16": _PRECISION,
    "fp16": _PRECISION,
    "gradient_checkpointing": "set `params.gradient_checkpointing`",
    **dict.fromkeys(
        (
            "save_strategy",
            "save_steps",
            "save_total_limit",
            "save_only_model",
            "save_on_each_node",
            "load_best_model_at_end",
            "enable_jit_checkpoint",
        ),
        _SAVING,
    ),
    **dict.fromkeys(
        (
            "logging_strategy",
            "logging_steps",
            "logging_first_step",
            "logging_nan_inf_filter",
            "disable_tqdm",
            "report_to",
            "run_name",
            "project",
            "trackio_space_id",
            "trackio_bucket_id",
            "trackio_static_space_id",
        ),
        _LOGGING,
    ),
    **dict.fromkeys(
        (
            "push_to_hub",
            "hub_model_id",
            "hub_strategy",
            "hub_token",
            "hub_private_repo",
            "hub_always_push",
            "hub_revision",
        ),
        _HUB,
    ),
    **dict.fromkeys(
        ("do_train", "do_eval", "do_predict", "eval_strategy", "eval_steps", "eval_delay", "eval_on_start"),
        _EVALUATION,
    ),
    **dict.fromkeys(("metric_for_best_model", "greater_is_better"), "set it under `evaluate`"),
    **dict.fromkeys(
        (
            "per_device_eval_batch_size",
            "eval_accumulation_steps",
            "prediction_loss_only",
            "batch_eval_metrics",
        ),
        _EVALUATION_BATCH,
    ),
    **dict.fromkeys(
        ("use_cpu", "fsdp", "fsdp_config", "deepspeed", "parallelism_config", "local_rank"), _HARDWARE
    ),
    "remove_unused_columns": "the trainer gets the columns that the method and its reward read",
    "use_liger_kernel": "set `params.use_liger_kernel`",
    "torch_compile": "set `params.torch_compile`",
    "resume_from_checkpoint": _RESUME,
    "ignore_data_skip": _RESUME,
    "restore_callback_states_from_checkpoint": _RESUME,
    "model_init_kwargs": _MODEL,
    "trust_remote_code": "posttrain does not run code that comes with a model",
    "chat_template_path": _MODEL,
    "chat_template_kwargs": "set `chat_template_kwargs` of the stage, or the column of that name",
    "eos_token": _TOKENS,
    "pad_token": _TOKENS,
}
# The arguments of all methods on rows.
_LENGTH = {
    "max_length": "set `params.max_length`",
    "dataset_num_proc": "rows are prepared with a process for each CPU of the step",
}
_REFERENCE = {
    "sync_ref_model": "set `params.ref_model_sync_steps`",
    "ref_model_sync_steps": "set `params.ref_model_sync_steps`",
    "ref_model_mixup_alpha": "set `params.ref_model_mixup_alpha`",
}
_BETA = {"beta": "set `params.beta`"}
_LOSS = {"loss_type": "set `params.loss_type`"}
_SMOOTHING = {"label_smoothing": "set `params.label_smoothing`"}
_ROLLOUTS_HELP = "set it under `placement: {rollouts: ...}` of the stage"
_SERVER_HELP = "the stage starts its own server: `placement: {rollouts: {mode: server}}`"
_ROLLOUT = {
    **_BETA,
    **_REFERENCE,
    **dict.fromkeys(
        (
            "use_vllm",
            "vllm_mode",
            "vllm_gpu_memory_utilization",
            "vllm_tensor_parallel_size",
            "vllm_enable_sleep_mode",
        ),
        _ROLLOUTS_HELP,
    ),
    **dict.fromkeys(
        (
            "vllm_server_base_url",
            "vllm_server_host",
            "vllm_server_port",
            "vllm_server_timeout",
            "vllm_group_port",
        ),
        _SERVER_HELP,
    ),
    "reward_weights": "set the weights in the reward graph",
    "num_train_epochs": "set `params.epochs`, or `params.max_steps`",
    "per_device_train_batch_size": (
        "set `params.num_prompts`, `params.num_generations` and `params.micro_batch_size`"
    ),
    "gradient_accumulation_steps": "set `params.micro_batch_size`",
    "steps_per_generation": "set `params.optimizer_steps_per_generation`",
    "generation_batch_size": "set `params.optimizer_steps_per_generation`",
    "num_iterations": "set `params.num_iterations`",
    "num_generations": "set `params.num_generations`",
    "max_completion_length": "set `params.max_completion_length`",
    "temperature": "set `params.temperature`",
    "top_p": "set `params.top_p`",
    "top_k": "set `params.top_k`",
    "min_p": "set `params.min_p`",
    "mask_truncated_completions": "set `params.mask_truncated_completions`",
    "epsilon": "set `params.epsilon`",
    "epsilon_high": "set `params.epsilon_high`",
}
_BY_CONFIG: Mapping[str, Mapping[str, str]] = {
    "SFTConfig": {
        **_LENGTH,
        "packing": "set `params.packing`",
        "dataset_text_field": "the column is `text`: rename your column in the steps of the dataset",
        "dataset_kwargs": "the steps of the dataset prepare the rows",
        "completion_only_loss": "set `params.loss_on`",
        "assistant_only_loss": "set `params.loss_on`",
    },
    "RewardConfig": {**_LENGTH, "center_rewards_coefficient": "set `params.center_rewards_coefficient`"},
    "DPOConfig": {
        **_LENGTH,
        **_BETA,
        **_LOSS,
        **_SMOOTHING,
        **_REFERENCE,
        "loss_weights": "set `params.loss_weights`",
    },
    "KTOConfig": {
        **_LENGTH,
        **_BETA,
        **_LOSS,
        **_REFERENCE,
        "desirable_weight": "set `params.desirable_weight`",
        "undesirable_weight": "set `params.undesirable_weight`",
    },
    "ORPOConfig": {**_LENGTH, **_BETA},
    "CPOConfig": {
        **_LENGTH,
        **_BETA,
        **_SMOOTHING,
        "loss_type": "set `params.loss_type`, or use the method `simpo`",
        "cpo_alpha": "set `params.cpo_alpha`",
        "simpo_gamma": "use the method `simpo` and set `params.simpo_gamma`",
    },
    "GRPOConfig": {
        **_ROLLOUT,
        **_LOSS,
        "delta": "set `params.delta`",
        "scale_rewards": "set `params.scale_rewards`",
        "importance_sampling_level": "set `params.importance_sampling_level`",
        "entropy_coef": "set `params.entropy_coef`",
    },
    "RLOOConfig": {
        **_ROLLOUT,
        "normalize_advantages": "set `params.normalize_advantages`",
        "reward_clip_range": "set `params.reward_clip_range`",
    },
}


def recipe_equivalent(argument: str, kind: str) -> str | None:
    """Return what to use instead of this argument, or None if the argument is allowed."""
    return _BY_CONFIG.get(kind, {}).get(argument) or _SHARED.get(argument)


def reserved_args(kind: str) -> set[str]:
    """Return the reserved arguments of a configuration class."""
    return {*_SHARED, *_BY_CONFIG[kind]}
