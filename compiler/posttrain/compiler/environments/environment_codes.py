"""The diagnostics about environments and the stages that use them."""

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.spec.diagnostic import Code

_DECLARATION = "environments:\n  place: {type: guess, params: {low: 1, high: 9}}\nstages:"
_STEPS = "      - derive: {target: length(answer)}\n      - split: {test: 100}"
_EVAL = "{eval: sft, environment: place, data: sums.test, reward: right, metrics: {score: {mean: returns}}}"
_REWARD = "{reads: {completion: text}, returns: {environment: {metric: score}}}"
_GRAPH = """
    reads: {completion: text, answer: text}
    returns: {score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}"""
_CHECK = "{eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}}"
_ENVIRONMENT_CHANGES = (
    ("      - split: {test: 100}", _STEPS),
    (_GRAPH, f" {_REWARD}"),
    ("stages:", _DECLARATION),
    (_CHECK, _EVAL),
)
ENVIRONMENT_EXAMPLE = minimal_recipe(*_ENVIRONMENT_CHANGES)

UNKNOWN_ENVIRONMENT = Code(
    "PT0681",
    "unknown environment",
    "error",
    "`environment` names an environment that the recipe does not declare. Declare it under `environments`,"
    " or correct the name.",
    wrong=ENVIRONMENT_EXAMPLE.replace("environment: place", "environment: palce"),
    right=ENVIRONMENT_EXAMPLE,
)
UNKNOWN_KIND = Code(
    "PT0682",
    "unknown environment type",
    "error",
    "`type` names an environment that comes with posttrain or that an installed package adds. A Python class"
    " in a file of the recipe has the type `python`.",
    wrong=ENVIRONMENT_EXAMPLE.replace("type: guess", "type: gess"),
    right=ENVIRONMENT_EXAMPLE,
)
_TRAIN_STAGE = "  act: {train: METHOD, model: sft, environment: place, data: sums.train, PARAMS}\n  check:"


def _training_example(method: str, params: str) -> str:
    return ENVIRONMENT_EXAMPLE.replace(
        "  check:", _TRAIN_STAGE.replace("METHOD", method).replace("PARAMS", params)
    )


NOT_MULTI_TURN = Code(
    "PT0683",
    "method without multi-turn support",
    "error",
    "Only methods that learn from completions of the trained model can use an environment, and only if their"
    " trainer masks the environment's text out of the loss.",
    wrong=_training_example("sft", "params: {epochs: 1, batch_size: 4}"),
    right=_training_example("grpo", "reward: right, params: {max_steps: 2}"),
)
BAD_ENVIRONMENT_REWARD = Code(
    "PT0684",
    "environment metric without a matching environment",
    "error",
    "The reward op `environment` reads a metric of the episode. The stage that uses the reward must name an"
    " environment, and the scores of that environment must stay within the range that the op declares"
    " (`low`, `high`).",
    wrong=ENVIRONMENT_EXAMPLE.replace("environment: place, ", "")
    .replace("  place: {type: guess, params: {low: 1, high: 9}}\n", "")
    .replace("environments:\n", ""),
    right=ENVIRONMENT_EXAMPLE,
)
CODES = (UNKNOWN_ENVIRONMENT, UNKNOWN_KIND, NOT_MULTI_TURN, BAD_ENVIRONMENT_REWARD)
