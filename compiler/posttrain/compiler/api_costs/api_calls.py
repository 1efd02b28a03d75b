"""The calls that a stage makes to endpoints: completions of its models, and verdicts of judges.

Retries are not counted. Token counts are ranges, because lengths are not known before the run.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from posttrain.compiler.api_costs.prompt_lengths import TokenRange, prompt_tokens, text_tokens
from posttrain.compiler.checks.inloop_eval import round_up_to_boundary
from posttrain.compiler.data.datasets import table_of
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.stages.eval_stage import CheckedEval
from posttrain.compiler.stages.generate_stage import CheckedGeneration
from posttrain.compiler.stages.train_stage import CheckedTraining
from posttrain.spec.declarations import Endpoint

MIN_OUTPUT_SHARE = 0.1  # shortest mean completion, as a share of its maximum
_JUDGE_FRAME_TOKENS = 100  # the fixed text around the rubric and the judged text


class ApiCalls(NamedTuple):
    """The calls of one stage to one endpoint, for one purpose."""

    name: str  # of the endpoint
    endpoint: Endpoint
    purpose: str
    items: int | None  # completions, episodes or verdicts; None if the number is not known
    calls: TokenRange  # for each item
    input: TokenRange  # tokens of each call
    output: TokenRange  # tokens of each item, over its calls
    batches: int = 1  # parts of the items, of which each waits for the one before, as in training


def stage_calls(name: str, checked: CheckedRecipe) -> Iterator[ApiCalls]:
    """Yield the calls of a stage."""
    if name in checked.trainings:
        yield from _training_calls(name, checked.trainings[name], checked)
    elif name in checked.evals:
        found = checked.evals[name]
        items = _items(name, found, checked)
        for target, endpoint in found.inference.endpoints.items():
            yield _completion_calls(name, target, endpoint, found, items, checked)
        models = len(found.inference.targets)
        yield from _judge_calls(
            found.graph, _times(items, models), found.stage.sampling.max_tokens, name, checked
        )
    elif name in checked.generations:
        yield from _generation_calls(name, checked.generations[name], checked)
    elif name in checked.benchmarks:
        for target, endpoint in checked.benchmarks[name].inference.endpoints.items():
            one = TokenRange(1, 1)
            yield ApiCalls(target, endpoint, "benchmark", None, one, one, one)


def _training_calls(name: str, training: CheckedTraining, checked: CheckedRecipe) -> Iterator[ApiCalls]:
    schedule, completions = training.schedule, training.method.footprint.completions
    # Without the number of rows, `max_steps` is the upper limit.
    steps = schedule.steps if schedule else getattr(training.params, "max_steps", None)
    boundary = training.boundary or 1
    if training.graph is not None and completions is not None:
        batches = None if steps is None else -(-steps // boundary)
        items = _times(batches, completions(training.params))
        longest = getattr(training.params, "max_completion_length", None) or 0
        calls = _judge_calls(training.graph, items, longest, name, checked)
        yield from (one._replace(batches=batches or 1) for one in calls)
    during = training.stage.evaluate
    for each in during.evals if during else ():
        found = checked.evals.get(each)
        if during is None or found is None:
            continue
        every = round_up_to_boundary(during.eval_steps, boundary)
        runs = None if steps is None else -(-steps // every)
        items = _times(_items(each, found, checked), runs)
        calls = _judge_calls(found.graph, items, found.stage.sampling.max_tokens, each, checked)
        for one in calls:
            purpose = f"{one.purpose}, in-loop evaluation {each}"
            yield one._replace(purpose=purpose, batches=runs or 1)


def _generation_calls(name: str, found: CheckedGeneration, checked: CheckedRecipe) -> Iterator[ApiCalls]:
    items, dialogue, sampling = _items(name, found, checked), found.stage.dialogue, found.stage.sampling
    for target, endpoint in found.inference.endpoints.items():
        calls = _completion_calls(name, target, endpoint, found, items, checked)
        if dialogue is not None:
            other = dialogue.with_sampling or sampling
            longest = max(sampling.max_tokens, other.max_tokens)
            calls = calls._replace(
                purpose="dialogue turns",
                calls=TokenRange(1, dialogue.max_turns),
                # On average, a turn is sent half of the other turns.
                input=TokenRange(calls.input.least, calls.input.most + dialogue.max_turns * longest),
                output=TokenRange(calls.output.least, dialogue.max_turns * longest),
            )
        yield calls
    if found.graph is not None:
        models = len(found.inference.targets)
        yield from _judge_calls(found.graph, _times(items, models), sampling.max_tokens, name, checked)


def _completion_calls(
    name: str,
    target: str,
    endpoint: Endpoint,
    found: CheckedEval | CheckedGeneration,
    items: int | None,
    checked: CheckedRecipe,
) -> ApiCalls:
    sampling, prompt = found.stage.sampling, prompt_tokens(name, found.stage, checked)
    environment = found.stage.environment if isinstance(found, CheckedEval) else None
    turns = checked.resolved.recipe.environments[environment].max_turns if environment else 1
    seen = sampling.max_tokens if turns > 1 else 0  # an episode so far is part of each prompt
    return ApiCalls(
        name=target,
        endpoint=endpoint,
        purpose="episodes" if environment else "completions",
        items=items,
        calls=TokenRange(1, turns),
        input=TokenRange(prompt.least, prompt.most + seen),
        output=TokenRange(max(1, int(MIN_OUTPUT_SHARE * sampling.max_tokens)), sampling.max_tokens),
    )


def _judge_calls(
    graph: RewardGraph, items: int | None, completion: int, stage: str, checked: CheckedRecipe
) -> Iterator[ApiCalls]:
    """Yield the calls of the graph's nodes that use an endpoint: at most one for each completion."""
    for node in graph.nodes:
        params: Mapping[str, Any] = node["params"]
        endpoint = graph.endpoints.get(str(params.get("endpoint")))
        if endpoint is None:
            continue
        rubric = text_tokens(str(params.get("rubric", "")))
        texts = sum(operand.startswith("with.") for operand in node["operands"])
        longest = max(1, int(params["max_tokens"]))
        yield ApiCalls(
            name=str(params["endpoint"]),
            endpoint=endpoint,
            purpose=f"verdicts of {node['id']}",
            items=items,
            # A judge is not asked about an absent text, or if its condition does not hold.
            calls=TokenRange(1 if _is_always_asked(node["operands"]) else 0, 1),
            input=TokenRange(
                rubric.least + _JUDGE_FRAME_TOKENS,
                rubric.most
                + _JUDGE_FRAME_TOKENS
                + completion
                + texts * prompt_tokens(stage, checked.resolved.recipe.stages[stage], checked).most,
            ),
            output=TokenRange(max(1, int(MIN_OUTPUT_SHARE * longest)), longest),
        )


def _is_always_asked(operands: Mapping[str, Any]) -> bool:
    always = operands.get("when", {"value": True}) == {"value": True}
    return always and operands.get("of") == {"read": "completion"}


def _items(name: str, found: CheckedEval | CheckedGeneration, checked: CheckedRecipe) -> int | None:
    """Return the completions of each model of a stage, or None if the number of rows is not known."""
    ref = checked.resolved.refs.get((f"stage:{name}", "data"))
    table = table_of(ref, checked.rows, checked.resolved) if ref is not None else None
    rows = table.expected_rows(ref.part) if ref is not None and table is not None else None
    return _times(rows, found.stage.sampling.n)


def _times(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other
