"""What can be wrong with an environment, and with a stage that acts in one."""

from posttrain.compiler.diagnosis.examples import minimal
from posttrain.spec.diagnostic import Code

_PLACE = "environments:\n  place: {kind: guess, params: {low: 1, high: 9}}\nstages:"
_STEPS = "      - derive: {target: length(answer)}\n      - split: {test: 100}"
_EVAL = "{eval: sft, environment: place, data: sums.test, reward: right, metrics: {score: {mean: returns}}}"
_REWARD = "{reads: {completion: text}, returns: {environment: {figure: score}}}"
_GRAPH = """
    reads: {completion: text, answer: text}
    returns: {score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}"""
_CHECK = "{eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}}"
_ACTING = (
    ("      - split: {test: 100}", _STEPS),
    (_GRAPH, f" {_REWARD}"),
    ("stages:", _PLACE),
    (_CHECK, _EVAL),
)
ACTING = minimal(*_ACTING)

UNKNOWN_ENVIRONMENT = Code(
    "PT0681",
    "an unknown environment",
    "error",
    "`environment` names one of the places declared under `environments`.",
    wrong=ACTING.replace("environment: place", "environment: palce"),
    right=ACTING,
)
UNKNOWN_KIND = Code(
    "PT0682",
    "an unknown kind of environment",
    "error",
    "`kind` names an environment that comes with posttrain, or that an installed package adds. A class of"
    " your own is of the kind `python`.",
    wrong=ACTING.replace("kind: guess", "kind: gess"),
    right=ACTING,
)
_TRAINED = "  act: {train: METHOD, model: sft, environment: place, data: sums.train, PARAMS}\n  check:"


def _trained(method: str, params: str) -> str:
    return ACTING.replace("  check:", _TRAINED.replace("METHOD", method).replace("PARAMS", params))


CANNOT_ACT = Code(
    "PT0683",
    "a stage that cannot act over several turns",
    "error",
    "Only methods that learn from what the model itself says act in an environment, and of these only those"
    " whose trainer leaves what the model was told out of the loss.",
    wrong=_trained("sft", "params: {epochs: 1, batch: 4}"),
    right=_trained("grpo", "reward: right, params: {steps: 2}"),
)
NO_EPISODE = Code(
    "PT0684",
    "an environment's figure without that environment",
    "error",
    "The reward op `environment` tells how an episode went. The stage that uses it must name an environment,"
    " whose scores lie in what the op says of them.",
    wrong=ACTING.replace("environment: place, ", "")
    .replace("  place: {kind: guess, params: {low: 1, high: 9}}\n", "")
    .replace("environments:\n", ""),
    right=ACTING,
)
CODES = (UNKNOWN_ENVIRONMENT, UNKNOWN_KIND, CANNOT_ACT, NO_EPISODE)
