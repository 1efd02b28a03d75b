"""Keys as other tools write them: what they are called here, and where they stand.

Whoever comes from TRL, axolotl or LLaMA-Factory writes the words that they know. An edit distance does
not lead from `lr` to `learning_rate`, nor from a file's top level to a stage's `params`.
"""

from collections.abc import Iterable

from posttrain.compiler.diagnosis.suggest import hint, listed, nearest, proposed
from posttrain.compiler.text.unreadable import lookalike_in

# Ours first, then how others call it. A word counts where ours is legal.
_OTHERS = {
    "learning_rate": "lr",
    "epochs": "num_epochs num_train_epochs n_epochs",
    "batch": "batch_size train_batch_size global_batch_size effective_batch_size",
    "max_length": "max_seq_length max_seq_len sequence_len seq_len cutoff_len model_max_length",
    "max_tokens": "max_completion_length max_new_tokens response_length max_response_length max_length",
    "schedule": "lr_scheduler_type lr_scheduler scheduler",
    "warmup": "warmup_ratio warmup_steps",
    "beta": "kl_coef kl_coeff kl_beta init_kl_coef kl_penalty",
    "epsilon": "cliprange clip_range clip_ratio clip_epsilon",
    "clip": "max_grad_norm grad_clip gradient_clip",
    "iterations": "ppo_epochs num_ppo_epochs num_iterations",
    "minibatches": "num_mini_batches num_minibatches mini_batch mini_batch_size minibatch_size",
    "generations": "group_size num_return_sequences rollouts",
    "samples": "n_samples num_samples num_return_sequences n",
    "prompts": "num_prompts prompts_per_step rollout_batch_size",
    "packing": "sample_packing",
    "loss": "loss_type",
    "micro_batch": "per_device_train_batch_size micro_batch_size per_device_batch_size",
    "checkpoint_every": "save_steps save_every",
    "keep_checkpoints": "save_total_limit",
    "imitation": "cpo_alpha",
    "precision": "mixed_precision",
    "dtype": "torch_dtype precision",
    "quantize": "quantization",
    "rank": "r lora_r lora_rank",
    "alpha": "lora_alpha",
    "dropout": "lora_dropout",
    "targets": "target_modules lora_target lora_target_modules modules",
    "kind": "type finetuning_type",
    "adapter": "lora peft lora_config peft_config",
    "model": "base_model model_name_or_path model_name model_id policy actor",
    "from": "base_model model_name_or_path model_name model_id path hub_id pretrained source",
    "reference": "ref_model reference_model",
    "reward": "reward_funcs reward_function reward_fn rewards",
    "data": "dataset dataset_name train_dataset datasets",
    "name": "path dataset repo repo_id dataset_name id",
    "config": "subset name",
    "chat_template": "template",
    "strategy": "deepspeed fsdp parallelism",
    "processes": "num_processes nproc_per_node world_size num_gpus",
    "gpus": "gpu accelerator accelerators gpu_type",
    "container": "image docker",
    "image": "docker_image",
    "tracking": "report_to loggers logging",
    "recipe": "version",
    "vars": "variables env",
    "matrix": "sweep grid strategy",
    "extends": "include includes inherits defaults base",
    "steps": "transforms preprocessing max_steps training_steps",
    "where": "filter keep",
    "derive": "map add_column compute with_column",
    "sample": "limit head take max_samples",
    "select": "columns keep_columns",
    "split": "train_test_split val_set_size",
    "dedup": "deduplicate unique distinct",
    "sort": "order_by orderby",
    "train": "method trainer finetune fine_tune algorithm",
    "eval": "evaluate evaluation test",
    "generate": "synthesize synthesise complete",
    "script": "run command shell",
    "gate": "assert require",
    "export": "save publish",
    "at_least": "min minimum threshold above greater_than",
    "at_most": "max maximum below less_than",
    "better_than": "baseline beats compare_to",
    "confidence": "alpha level",
    "when": "if condition cond",
    "then": "value",
    "open": "start begin open_tag left",
    "close": "end stop close_tag right",
    "to": "target expected with answer reference gold",
    "of": "text value input a column node completion",
    "pattern": "regex regexp",
    "call": "function path file fn",
    "endpoint": "model judge",
    "rubric": "prompt criteria instructions",
    "utilisation": "gpu_memory_utilization utilization",
    "tensor_parallel": "tp tensor_parallel_size",
    "think": "reasoning thinking thought",
    "answer": "solution",
    "exclude": "skip except",
    "patience": "early_stopping early_stopping_patience",
    "every": "eval_steps interval",
    "key": "api_key token secret",
    "url": "base_url api_base endpoint_url",
    "concurrency": "max_concurrency num_workers parallel",
    "metrics": "metric",
    "returns": "output result",
    "reads": "inputs columns",
    "nodes": "node functions terms",
    "text": "string str varchar",
    "integer": "int long bigint",
    "number": "float double decimal",
    "boolean": "bool",
    "timeout_minutes": "timeout time_limit",
    "timeout_seconds": "timeout",
}
# The same of reward ops, which have a table of their own: `and` and `if` are words of reward graphs alone.
_OPS = {
    "score": "if ifelse if_else iff ternary conditional where select",
    "cases": "switch case elif cond",
    "all": "and every both",
    "any": "or some either",
    "not": "negate negation no",
    "sum": "add plus total",
    "product": "multiply times mul prod",
    "mean": "average avg",
    "max": "maximum",
    "min": "minimum",
    "weighted": "weights weighted_sum linear combine",
    "clip": "clamp bound",
    "equal": "equals eq exact exact_match same",
    "compare": "greater less gt lt ge le at_least at_most",
    "math_equal": "math math_verify is_equiv symbolic",
    "numeric": "isclose close approx",
    "contains": "includes substring in",
    "matches": "match test search",
    "regex": "extract pattern findall",
    "between": "tag tags xml_tag",
    "length": "len tokens",
    "present": "exists defined",
    "judge": "llm llm_judge critic",
    "reward_model": "rm scorer",
    "code_tests": "unit_tests tests run_tests",
    "python": "function custom lambda",
    "similarity": "bleu rouge levenshtein",
}
_SHAPES = {
    "score": "`{score: {when: CONDITION, then: 1.0, else: 0.0}}`",
    "cases": "`{cases: {of: [{when: CONDITION, then: 1.0}], otherwise: 0.0}}`",
}

_PARAMS = "`stages.NAME.params`"
# Where keys stand that people look for elsewhere.
_PLACES = {
    _PARAMS: "learning_rate epochs batch max_length schedule warmup weight_decay clip micro_batch precision"
    " packing beta epsilon iterations generations prompts loss gradient_checkpointing checkpoint_every"
    " keep_checkpoints",
    "`models.NAME.adapter`": "rank alpha dropout targets",
    "`models.NAME`": "from dtype quantize chat_template tokenizer",
    "`sampling`": "temperature top_p max_tokens samples stop",
    "`from`, inside the source: {hub: {...}} or {files: {...}}": "hub files arithmetic rows columns split"
    " path config",
    "`placement`": "strategy processes rollouts",
    "`hardware`": "gpus nodes memory_gb",
    "a stage: `stages: {NAME: {train: METHOD, ...}}`": "train eval generate export gate reward data model",
}
# What has no key of its own, and what there is instead.
_INSTEAD = {
    "base_model": "write `models: {NAME: {from: ORG/NAME}}`",
    "model_name_or_path": "write `models: {NAME: {from: ORG/NAME}}`",
    "dataset": "write `datasets: {NAME: {from: {hub: {name: ORG/NAME, columns: ...}}}}`",
    "gradient_accumulation_steps": "`params.batch` is the whole batch; the compiler divides it by what fits",
    "per_device_train_batch_size": "`params.batch` is the whole batch, of all devices and accumulation steps",
    "accumulate": "`params.batch` is the whole batch; the compiler divides it by what fits",
    "accumulation_steps": "`params.batch` is the whole batch; the compiler divides it by what fits",
    "deepspeed_config": "`strategy: zero2` is enough: the configuration is made from the plan",
    "output_dir": "products lie in the store; `recipe path STAGE` tells where",
    "dataset_prepared_path": "what was made once is found again by its key",
    "model_type": "the architecture is read from the model",
    "tokenizer_type": "the tokenizer is the model's, or `models.NAME.tokenizer`",
    "bf16": "write `precision: bfloat16`; auto takes what the device does best",
    "fp16": "write `precision: float16`; auto takes what the device does best",
    "load_in_4bit": "write `adapter: {kind: qlora}` in the model",
    "load_in_8bit": "write `quantize: int8` in the model",
    "val_set_size": "a dataset's step `split` makes parts: `steps: [split: {test: 0.05}]`",
    "shuffle": "training draws its rows in an order of its own; data needs no shuffling",
    "drop": "`select` names the columns to keep",
    "optimizer": "AdamW; another one under `trl: {optim: NAME}`",
    "optim": "AdamW; another one under `trl: {optim: NAME}`",
    "use_vllm": "`placement: {rollouts: {engine: vllm}}` in the stage; on GPUs it is so by itself",
    "flash_attention": "the attention is chosen by what the device has",
    "attn_implementation": "the attention is chosen by what the device has",
    "logging_steps": "every step is logged",
    "eval_steps": "`evaluate: {every: N, evals: [STAGE]}` in the stage",
    "push_to_hub": "an export stage has `push`",
    "deepspeed": "`placement: {strategy: zero2}` in the stage, or zero1, zero3",
    "fsdp": "`placement: {strategy: fsdp}` in the stage",
    "do_train": "a stage is carried out because it is there",
}


def key_meant(word: str, legal: Iterable[str]) -> str | None:
    """The key that a person most likely meant by a word that is none here."""
    known = list(legal)
    others = [ours for ours in ours_of(_folded(word)) if ours in known]
    if others:
        return others[0]
    return None if _folded(word) in _INSTEAD else nearest(word, known)


def key_hint(word: str, legal: Iterable[str], *, what: str) -> tuple[str, str | None]:
    """What to say of an unknown key, and what to put in its place, if that is plain."""
    known = sorted(set(legal) - {""})
    meant = key_meant(word, known)
    if not word.isascii() and (odd := lookalike_in(word)):
        return f"{odd}; {proposed(meant, known, what) if meant else listed(known, what)}", meant
    if meant is None:
        return elsewhere(word) or listed(known, what), None
    instead = _INSTEAD.get(_folded(word), "")
    return "; ".join(filter(None, (instead, proposed(meant, known, what)))), meant


def op_hint(word: str, legal: Iterable[str]) -> tuple[str, str | None]:
    """What to say of an unknown reward op, and what to put in its place, if that is plain."""
    known = sorted(legal)
    meant = next((ours for ours, theirs in _OPS.items() if _folded(word) in theirs.split()), None)
    if meant not in known:
        return hint(word, known, what="reward ops")
    shape = _SHAPES.get(meant)
    return proposed(meant, known, "reward ops") + (f" it is written {shape}" if shape else ""), meant


def elsewhere(word: str) -> str:
    """Where a key stands that has no meaning where it is; empty when that is not known."""
    folded = _folded(word)
    if folded in _INSTEAD:
        return _INSTEAD[folded]
    for ours in (folded, *ours_of(folded)):
        for place, words in _PLACES.items():
            if ours in words.split():
                return f"`{ours}` stands under {place}"
    return ""


def ours_of(word: str) -> list[str]:
    """What a word of others is called here."""
    return [ours for ours, theirs in _OTHERS.items() if word in theirs.split()]


def _folded(word: str) -> str:
    return word.strip().lower().replace("-", "_")
