"""Keys of other tools that have none here, with what there is instead; and where ours stand."""

from collections.abc import Mapping

_MODEL = "write `models: {NAME: {from: ORG/NAME}}`"
_DATA = "write `datasets: {NAME: {from: {hub: {name: ORG/NAME, columns: ...}}}}`"
_WHOLE = "`params.batch_size` is the whole batch, of all devices and accumulation steps"
_AT_ONCE = "a step learns from `num_prompts` x `num_generations` completions; `optimizer_steps_per_generation` steps share one generation"
_SPREAD = "`scale_rewards: group` divides by the group's spread, `none` does not"
_DIVIDED = "`params.batch_size` is the whole batch; the compiler divides it by what fits"
_STORE = "products lie in the store; `recipe path STAGE` tells where"
_MADE = "what was made once is found again by its key"
_ATTENTION = "the attention is chosen by what the device has"
_PART = "a dataset's step `split` makes parts: `steps: [split: {test: 0.05}]`"
_DURING = "`evaluate: {eval_steps: N, evals: [STAGE]}` in the stage"
_STOP = "`evaluate: {eval_steps: N, evals: [STAGE], metric_for_best_model: STAGE.METRIC, early_stopping_patience: N}` in the stage"
_BEST = "`evaluate: {eval_steps: N, evals: [STAGE], metric_for_best_model: STAGE.METRIC, keep: best}` in the stage"
_EXACT = "`recipe run` goes on by itself, and exactly, from where a run was ended"
_PUSH = "an export stage has `push`"
_TRACKED = (
    "`tracking: [wandb]` at the top of the recipe; the project is WANDB_PROJECT's, or the recipe's name"
)
_METHOD = "a stage says it: `stages: {NAME: {train: dpo, ...}}`"
_KIND = "`adapter: {type: lora}` in the model, or qlora; without an adapter all weights are trained"
_QUANT = "write `adapter: {type: qlora}` in the model, or `quantize: int8`"
_TOKENS = "no tokens are added to a tokenizer: save the model with one that has them, and name its folder"
_FROZEN = "all weights are trained, or those of an adapter: parts of a model cannot be frozen"
_NO_DORA = "there is no DoRA; `type: lora`, with `use_rslora: true` for a high rank"
_SEQUENCE = "a sequence lies whole on one GPU: no sequence is divided"
_ZERO = "`placement: {strategy: zero2}` in the stage, or zero1, zero3"
_FSDP = "`placement: {strategy: fsdp}` in the stage"
_VLLM = "`placement: {rollouts: {engine: vllm}}` in the stage; on GPUs it is so by itself"
_WEIGH = "weigh the nodes in the reward graph: `weighted`, or `scale` in a `sum`"
_SERVER = "`placement: {rollouts: {mode: server, gpus: N}}`: the stage starts a server of its own"
_ENDS = "the tokenizer's own; write {{ eos_token }} in a chat template, and turns end by it"
_FLAT = "groups without any spread teach nothing; they are not drawn anew"
_LONG = "a node of the reward: `{ramp: {of: {tokens: {}}, start: N, end: MAX_TOKENS, after: -1}}`"
_ADVANTAGE = (
    "the method says it: `train: grpo`, `rloo` or `ppo`; `scale_rewards: batch` makes grpo REINFORCE++'s"
)
_PROMPT = "prompts are not cut; the step `max_length` leaves long ones out: {columns: [prompt], at_most: N}"
_SYSTEM = "the step `chat: {turns: [{system: {text: ...}}, {user: ...}]}` writes it, or `tags` of the model"
_COLUMNS = (
    "steps of the dataset bring columns into shape: `rename: {THEIRS: prompt}`, `chat`, `conversations`"
)
_IMITATE = "`loss_type: [sigmoid, sft]` with `loss_weights`"
_OPTIMIZER = "AdamW; another one under `trl: {optim: NAME}`"
_MIX = "a dataset's step `mix: {OTHER: 0.5}` adds rows of others"
_TEACHER = "completions of a teacher are a `generate` stage, and `sft` learns them; its logits are not learnt"
_CODE = "posttrain runs no code that comes with a model"

_NOTES: tuple[tuple[str, str], ...] = (
    ("base_model model_name_or_path pretrain actor_rollout_ref", _MODEL),
    ("dataset dataset_name pretraining_dataset train_files prompt_data", _DATA),
    ("gradient_accumulation_steps accumulate accumulation_steps", _DIVIDED),
    ("output_dir overwrite_output_dir save_path ckpt_path checkpoint_dir", _STORE),
    (
        "dataset_prepared_path overwrite_cache preprocessing_num_workers dataset_num_proc num_proc streaming",
        _MADE,
    ),
    ("quantization_bit bnb_4bit_quant_type bnb_4bit_use_double_quant", _QUANT),
    ("val_set_size val_size split_dataset_ratio", _PART),
    ("eval_dataset val_files val_dataset", f"{_PART}; {_DURING}"),
    ("optimizer optim", _OPTIMIZER),
    (
        "flash_attention attn_implementation attn_impl use_flash_attn flash_attn xformers_attention",
        _ATTENTION,
    ),
    ("sdp_attention", _ATTENTION),
    ("eval_steps evaluation_strategy eval_strategy evals_per_epoch val_period do_eval", _DURING),
    ("early_stopping early_stopping_patience early_stop_interval", _STOP),
    ("load_best_model_at_end metric_for_best_model", _BEST),
    ("save_strategy saves_per_epoch", "`params.save_steps` counts optimizer steps"),
    ("resume_from_checkpoint resume auto_resume resume_mode", _EXACT),
    ("push_to_hub hub_model_id hub_strategy", _PUSH),
    ("report_to with_tracking use_wandb enable_wandb wandb_project wandb_entity wandb_name", _TRACKED),
    ("rl rlhf_type stage trainer_type training grpo dpo sft", _METHOD),
    ("cluster n_gpus_per_node", "`hardware: {gpus: 8xH100-80GB, nodes: 1}`"),
    ("pad_to_sequence_len group_by_length", "rows are filled up to the longest beside them"),
    ("finetuning_type train_type tuner_type", _KIND),
    ("special_tokens tokens add_tokens add_special_tokens new_special_tokens resize_vocab", _TOKENS),
    ("freeze_trainable_layers freeze_trainable_modules freeze_modules freeze_parameters", _FROZEN),
    ("freeze_parameters_ratio trainable_parameters unfrozen_parameters", _FROZEN),
    ("use_dora peft_use_dora dora", _NO_DORA),
    ("init_lora_weights pissa_init", "a LoRA starts at zero, as PEFT's own does"),
    ("modules_to_save lora_modules_to_save", "an adapter trains its own matrices alone"),
    ("loraplus_lr_ratio embedding_lr", "all that is trained is trained at one rate"),
    (
        "sequence_parallel_size context_parallel_size ulysses_sequence_parallel_size ring_attn_size sp_size",
        _SEQUENCE,
    ),
    ("cp_size", _SEQUENCE),
    ("deepspeed zero_stage", _ZERO),
    ("fsdp fsdp_config fsdp_version dp_shard_size", _FSDP),
    ("dynamic_sampling dynamic_sample dynamic_filtering filter_groups filter_zero_std_samples", _FLAT),
    ("overlong_buffer overlong_buffer_len overlong_penalty_factor soft_cache_length soft_max_length", _LONG),
    ("reward_shaping", _LONG),
    ("adv_estimator advantage_estimator", _ADVANTAGE),
    ("max_prompt_length prompt_max_len max_input_seq_length", _PROMPT),
    ("system_prompt system default_system system_prompt_file", _SYSTEM),
    ("field_messages message_property_mappings dataset_text_field formatting prompt_key input_key", _COLUMNS),
    ("output_key label_key", _COLUMNS),
    ("rpo_alpha pref_ftx nll_loss_coef sft_loss_weight", _IMITATE),
    (
        "train_on_inputs train_on_prompt mask_prompt completion_only_loss",
        "completions are learnt alone, or with `loss_on: all` their prompts too",
    ),
    (
        "roles_to_train mask_history assistant_only_loss",
        "of conversations all turns of the assistant are learnt, or after `last_turn: {}` the last alone",
    ),
    ("token_level_loss loss_agg_mode", "`loss_type: dapo` is the mean over tokens, `grpo` over rows"),
    ("normalize_rewards norm_adv_by_std_in_grpo", _SPREAD),
    ("dataset_mixer dataset_mixture interleave_probs mix_strategy data_mixture", _MIX),
    ("max_samples max_train_samples sample_count", "a dataset's step `sample: N` draws so many rows"),
    ("teacher_model gkd_teacher kd_teacher", _TEACHER),
    ("plugins hooks callbacks", "there are no hooks into training; a `script` stage runs yours"),
    ("per_device_train_batch_size", _WHOLE),
    ("ppo_mini_batch_size", _AT_ONCE),
    ("deepspeed_config", "`strategy: zero2` is enough: the configuration is made from the plan"),
    ("model_type", "the architecture is read from the model"),
    ("tokenizer_type", "the tokenizer is the model's, or `models.NAME.tokenizer`"),
    ("trust_remote_code", _CODE),
    ("bf16", "write `precision: bfloat16`; auto takes what the device does best"),
    ("fp16", "write `precision: float16`; auto takes what the device does best"),
    ("tf32", "`precision` says it all; auto takes what the device does best"),
    ("load_in_4bit", "write `adapter: {type: qlora}` in the model"),
    ("load_in_8bit", "write `quantize: int8` in the model"),
    ("shuffle", "training draws its rows in an order of its own; data needs no shuffling"),
    ("drop", "`select` names the columns to keep"),
    ("use_galore", "`trl: {optim: galore_adamw, optim_target_modules: [...]}` in the stage"),
    ("use_vllm", _VLLM),
    ("logging_steps", "every step is logged"),
    ("logging_strategy logging_first_step logging_nan_inf_filter disable_tqdm", "every step is logged"),
    ("chat_template_path", "`chat_template: FILE.jinja` in the model"),
    ("eos_token pad_token", _ENDS),
    (
        "lr_scheduler_kwargs",
        "`min_lr_ratio` is the final rate, `decay_ratio` the length of the decay of warmup_stable_decay",
    ),
    ("data_seed", "the recipe's `seed` decides it"),
    ("generation_batch_size", _AT_ONCE),
    ("auto_find_batch_size", "`micro_batch_size`, or what the compiler finds to fit"),
    ("hub_token hub_revision hub_private_repo hub_always_push", _PUSH),
    ("run_name project trackio_space_id trackio_bucket_id trackio_static_space_id", _TRACKED),
    ("save_only_model save_on_each_node enable_jit_checkpoint ignore_data_skip", _EXACT),
    ("restore_callback_states_from_checkpoint", _EXACT),
    ("model_init_kwargs", "`models.NAME` says how a model is loaded: `dtype`, `quantize`"),
    ("dataset_kwargs remove_unused_columns", "the columns that a method and its reward read are kept"),
    ("use_cpu local_rank parallelism_config", "`hardware` is the target, `placement` what lies where"),
    ("do_predict eval_on_start", _DURING),
    ("vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout vllm_group_port", _SERVER),
    ("plot_loss", "`recipe report` has the curves"),
    ("strict", "keys that do not exist are always told"),
    ("multi_turn", "an environment answers the model's turns: `environment: NAME` in the stage"),
    ("lora_target_linear", "`target_modules: all-linear` is every linear layer"),
    ("do_train", "a stage is carried out because it is there"),
    ("reward_weights", _WEIGH),
    ("use_leave_one_out_baseline", "`train: rloo` is the method with that baseline"),
    ("reference_free", "the methods simpo, orpo and cpo compare with no reference"),
    ("gamma_beta_ratio", "`simpo_gamma` is that ratio times `beta`"),
    ("min_lr", "`min_lr_ratio` is the final rate as a share of the highest"),
    (
        "sequence_level_importance_ratios",
        "`importance_sampling_level: sequence`; with `loss_type: grpo` it is GSPO",
    ),
    ("eps_clip_low_high", "`epsilon` and `epsilon_high`"),
    (
        "sync_ref_model",
        "set `ref_model_sync_steps`, and `ref_model_mixup_alpha` for how far the reference moves",
    ),
)
FOREIGN_KEY_NOTES: Mapping[str, str] = {word: told for words, told in _NOTES for word in words.split()}
# What a word means where a key of ours is legal that tells the place: a dataset, a model, the top.
CONTEXT_NOTES: Mapping[str, Mapping[str, str]] = {
    "steps": {
        "type": _COLUMNS,
        "name": _DATA,
        "path": _DATA,
        "split": "`split` stands under `from`, inside `hub`; the step `split` makes parts",
        "columns": "`columns` stands under `from`, inside `hub` or `files`: {NAME: TYPE}",
        **dict.fromkeys(("weight", "weights", "probs", "mixture_proportion"), _MIX),
    },
    "chat_template": {"name": _MODEL, "path": _MODEL},
    "profiles": {"dataset": _DATA, "dataset_name": _DATA, "logger": _TRACKED},
}
_PARAMS = "`stages.NAME.params`"
# Where keys stand that people look for elsewhere.
KEY_LOCATIONS: Mapping[str, str] = {
    _PARAMS: "learning_rate epochs max_steps batch_size max_length lr_scheduler_type warmup_steps min_lr_ratio"
    " decay_ratio weight_decay max_grad_norm micro_batch_size precision packing beta epsilon epsilon_high delta"
    " num_iterations num_generations num_prompts max_completion_length loss_type loss_weights loss_on"
    " label_smoothing use_liger_kernel torch_compile optimizer_steps_per_generation scale_rewards"
    " importance_sampling_level entropy_coef mask_truncated_completions missing_eos_penalty"
    " ref_model_sync_steps ref_model_mixup_alpha desirable_weight undesirable_weight cpo_alpha simpo_gamma"
    " center_rewards_coefficient normalize_advantages reward_clip_range critic_learning_rate cliprange"
    " cliprange_high cliprange_value vf_coef kl_coef kl_estimator kl_target kl_horizon num_ppo_epochs"
    " num_mini_batches whiten_advantages lam gradient_checkpointing save_steps save_total_limit",
    "`models.NAME.adapter`": "r lora_alpha use_rslora lora_dropout target_modules existing_adapter",
    "`models.NAME`": "from dtype quantize chat_template tokenizer adapter",
    "`models.NAME.init`": "num_hidden_layers hidden_size num_attention_heads num_key_value_heads"
    " intermediate_size max_position_embeddings initializer_range tie_word_embeddings",
    "`sampling` of an eval, or a stage's `params`": "temperature top_p top_k min_p max_tokens n stop",
    "`from`, inside the source: {hub: {...}} or {files: {...}}": "hub files arithmetic rows columns split"
    " path config",
    "`placement: {rollouts: ...}`": "engine gpu_memory_utilization tensor_parallel_size mode enable_sleep_mode",
    "`placement`": "strategy num_processes rollouts",
    "`evaluate` of a training stage": "eval_steps metric_for_best_model greater_is_better"
    " early_stopping_threshold early_stopping_patience",
    "`environments.NAME`": "turns turn_tokens",
    "`hardware`": "gpus nodes memory_gb",
    "a stage: `stages: {NAME: {train: METHOD, ...}}`": "train eval generate export gate reward data model"
    " reference",
    "the recipe, at its top": "tracking seed",
}
