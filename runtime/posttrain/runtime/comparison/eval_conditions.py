"""Finds what keeps the evals of two runs from being compared item by item."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.runtime.report.number_format import mapping_or_empty
from posttrain.runtime.report.run_record import RunRecord, StepRecord

# Parameters that change the speed of sampling, not the distribution of the completions.
_SPEED_OPTIONS = frozenset({"batch_size", "continuous_batching"})
_PROMPT_PARAMS = ("prompts", "chat_template_kwargs", "few_shot", "num_fewshot")
_TASK_PARAMS = ("tasks", "groups", "limit", "revisions")
# Parameters of a training that are not a part of its loss on held-out rows.
_OPTIMIZATION_PARAMS = frozenset(
    {
        "learning_rate",
        "max_steps",
        "epochs",
        "warmup_steps",
        "lr_scheduler_type",
        "min_lr_ratio",
        "decay_ratio",
    }
    | {"batch_size", "micro_batch_size", "max_grad_norm", "weight_decay", "save_steps", "save_total_limit"}
    | {"gradient_checkpointing", "use_liger_kernel", "torch_compile", "packing"}
)
_DATA = "data"


def unequal_conditions(
    base: StepRecord, other: StepRecord, base_run: RunRecord, other_run: RunRecord
) -> list[str]:
    """Why the items of two evals cannot be paired; empty if nothing but the model differs.

    Another seed of the sampler is no reason: the items are the same, and gates pair them as well. Whether the
    rows of the data are equal is decided by their content.
    """
    if base.step.kind != other.step.kind:
        return [f"different kinds of stages: {base.step.kind} and {other.step.kind}"]
    if base.step.kind not in ("eval", "benchmark", "train"):
        return [f"a {base.step.kind} stage has no items"]
    return list(_reasons(base, other, base_run, other_run))


def _reasons(base: StepRecord, other: StepRecord, base_run: RunRecord, other_run: RunRecord) -> Iterator[str]:
    old, new = (mapping_or_empty(record.step.params) for record in (base, other))
    if _chosen(old, _TASK_PARAMS) != _chosen(new, _TASK_PARAMS):
        yield "different eval data: the tasks of the benchmark"
    if _sampler(old) != _sampler(new):
        yield f"different sampler: {_differing(_sampler(old), _sampler(new))}"
    if _grader(base) != _grader(other):
        yield f"different grader: {_differing(_grader(base), _grader(other))}"
    prompts = _prompt(base, base_run), _prompt(other, other_run)
    if prompts[0] != prompts[1]:
        yield f"different prompt: {_differing(*prompts)}"
    if old.get("environment") != new.get("environment"):
        yield "different environment"
    for role in sorted(_other_inputs(base).keys() | _other_inputs(other).keys()):
        if _other_inputs(base).get(role) != _other_inputs(other).get(role):
            yield f"different input: {role}"


def _chosen(params: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: params[name] for name in names if params.get(name)}


def _sampler(params: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        name: value
        for name, value in mapping_or_empty(params.get("sampling")).items()
        if name not in _SPEED_OPTIONS
    }
    models = params.get("models")
    targets = [mapping_or_empty(one) for one in models] if isinstance(models, list) else []
    engines = sorted({str(one.get("engine")) for one in targets if one.get("engine")})
    return {**found, "engine": engines} if engines else found


def _grader(record: StepRecord) -> dict[str, Any]:
    """The reward graph, the versions of its ops and of the verb, and the user's functions. Of a training, the
    method and the parameters of its loss."""
    params = mapping_or_empty(record.step.params)
    versions = mapping_or_empty(mapping_or_empty(record.step.key_values).get("extensions"))
    if record.step.kind == "train":
        own = mapping_or_empty(params.get("params")).items()
        objective = {name: value for name, value in own if name not in _OPTIMIZATION_PARAMS}
        return {"method": params.get("method"), **objective}
    return {
        "reward graph": params.get("reward"),
        **{name: version for name, version in versions.items() if not name.startswith("engine:")},
        **{file.path: file.sha256 for file in record.step.files.values()},
    }


def _prompt(record: StepRecord, run: RunRecord) -> dict[str, Any]:
    """What turns a row into a prompt: parameters, and the chat templates that the recipe sets."""
    params = mapping_or_empty(record.step.params)
    return {**_chosen(params, _PROMPT_PARAMS), "chat template": sorted(_chat_templates(record, run))}


def _chat_templates(record: StepRecord, run: RunRecord) -> set[str]:
    """The chat templates of the models that an eval reads, and of those that they were trained from."""
    steps = {one.id: one.step for one in run.steps}
    found: set[str] = set()
    pending = [source.step for role, source in record.step.inputs.items() if role in _model_roles(record)]
    seen: set[str] = set()
    while pending:
        step = steps.get(pending.pop())
        if step is None or step.id in seen:
            continue
        seen.add(step.id)
        if step.kind == "model":
            params, file = mapping_or_empty(step.params), step.files.get("chat_template")
            name, arguments = params.get("chat_template"), params.get("chat_template_kwargs")
            found |= {file.sha256 if file else str(name)} if name else set()
            found |= {f"arguments {json.dumps(arguments, sort_keys=True)}"} if arguments else set()
        elif "model" in step.inputs:
            pending.append(step.inputs["model"].step)
    return found


def _model_roles(record: StepRecord) -> set[str]:
    """The roles of the inputs that are measured: every comparison allows them to differ."""
    models = mapping_or_empty(record.step.params).get("models")
    targets = [mapping_or_empty(one) for one in models] if isinstance(models, list) else []
    return {"model", *(str(one.get("role")) for one in targets)}


def _other_inputs(record: StepRecord) -> dict[str, Any]:
    """The keys of the inputs besides the data and the measured models, such as a judge or few-shot rows.

    The data of a training are the rows that it trains on: they are a part of what is compared.
    """
    left_out = {_DATA, *_model_roles(record)}
    values = mapping_or_empty(record.step.key_values)
    return {role: values.get(f"input.{role}") for role in record.step.inputs if role not in left_out}


def same_data_input(base: StepRecord, other: StepRecord) -> bool:
    """Whether two evals read the same part of the same dataset."""
    old, new = (mapping_or_empty(record.step.key_values).get(f"input.{_DATA}") for record in (base, other))
    return old is not None and old == new


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The names of the values that differ."""
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    shown = names[:4]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
