"""What can be wrong with an environment, and with a stage that acts in one."""

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
    "an unknown environment",
    "error",
    "`environment` names one of the places declared under `environments`.",
    wrong=ENVIRONMENT_EXAMPLE.replace("environment: place", "environment: palce"),
    right=ENVIRONMENT_EXAMPLE,
)
UNKNOWN_KIND = Code(
    "PT0682",
    "an unknown kind of environment",
    "error",
    "`kind` names an environment that comes with posttrain, or that an installed package adds. A class of"
    " your own is of the kind `python`.",
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
    "a stage that cannot act over several turns",
    "error",
    "Only methods that learn from what the model itself says act in an environment, and of these only those"
    " whose trainer leaves what the model was told out of the loss.",
    wrong=_training_example("sft", "params: {epochs: 1, batch_size: 4}"),
    right=_training_example("grpo", "reward: right, params: {max_steps: 2}"),
)
BAD_ENVIRONMENT_REWARD = Code(
    "PT0684",
    "an environment's figure without that environment",
    "error",
    "The reward op `environment` tells how an episode went. The stage that uses it must name an environment,"
    " whose scores lie in what the op says of them.",
    wrong=ENVIRONMENT_EXAMPLE.replace("environment: place, ", "")
    .replace("  place: {type: guess, params: {low: 1, high: 9}}\n", "")
    .replace("environments:\n", ""),
    right=ENVIRONMENT_EXAMPLE,
)
CODES = (UNKNOWN_ENVIRONMENT, UNKNOWN_KIND, NOT_MULTI_TURN, BAD_ENVIRONMENT_REWARD)
