"""The diagnostics about reward graphs."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code

UNKNOWN_OP = Code(
    "PT0501",
    "unknown reward op",
    "error",
    "A node is a mapping with one key: the name of the op, with its operands and parameters.",
    wrong=minimal_recipe(("{math_equal:", "{maths_equal:")),
    right=MINIMAL_RECIPE,
)
UNKNOWN_NODE = Code(
    "PT0502",
    "unknown node or column in a reward",
    "error",
    "An operand names a column from `reads` or a node of the graph. Write literal text as {text: ...}.",
    wrong=minimal_recipe(("of: completion, to: answer", "of: completion, to: anser")),
    right=MINIMAL_RECIPE,
)
WRONG_OPERAND = Code(
    "PT0503",
    "operand of the wrong type",
    "error",
    "Each op takes operands of fixed types and returns one type. For example, `between` takes text and"
    " returns text, and `score` takes a condition and returns a number.",
    wrong=minimal_recipe(("when: {math_equal: {of: completion, to: answer}}", "when: completion")),
    right=MINIMAL_RECIPE,
)
BAD_NODE = Code(
    "PT0504",
    "invalid reward node",
    "error",
    "A node is a name, a number, or a mapping of one op to its operands. Every operand without a default is"
    " required.",
    wrong=minimal_recipe(("{math_equal: {of: completion, to: answer}}", "{math_equal: {of: completion}}")),
    right=MINIMAL_RECIPE,
)
CONSTANT_REWARD = Code(
    "PT0505",
    "constant reward",
    "error",
    "The reward has the same value for every completion, so training cannot learn from it.",
    wrong=minimal_recipe(("then: 1.0}}", "then: 0.0}}")),
    right=MINIMAL_RECIPE,
)
UNUSED_NODE = Code(
    "PT0506",
    "unused reward node",
    "warning",
    "Neither the reward nor any metric uses this node.",
    wrong=minimal_recipe(("    returns:", "    nodes: {there: {present: completion}}\n    returns:")),
    right=MINIMAL_RECIPE,
)
BAD_TYPE = Code(
    "PT0507",
    "unknown column type",
    "error",
    "`reads` maps each name to one of the types text, integer, number, boolean, messages, list<TYPE>, any.",
    wrong=minimal_recipe(("answer: text}", "answer: string}")),
    right=MINIMAL_RECIPE,
)
CIRCULAR_NODES = Code(
    "PT0508",
    "circular reference between reward nodes",
    "error",
    "A node is computed from its operands, so it cannot depend on itself, directly or through other nodes.",
    wrong=minimal_recipe(("    returns:", "    nodes: {a: {sum: [b, 1]}, b: {sum: [a, 1]}}\n    returns:")),
    right=MINIMAL_RECIPE,
)
_JUDGE = "{judge: {of: completion, endpoint: critic, rubric: Is it polite?, scale: [1, 5]}}"
_JUDGED = ("rewards:\n", f"rewards:\n  polite: {{reads: {{completion: text}}, returns: {_JUDGE}}}\n")
_CRITIC = "endpoints:\n  critic: {provider: vllm, model: judge, base_url: http://localhost:8000/v1}\n"
_MEASURED = (
    "  check:",
    "  manners: {eval: sft, data: sums.test, reward: polite, metrics: {score: {mean: returns}}}\n  check:",
)
UNKNOWN_ENDPOINT = Code(
    "PT0509",
    "unknown endpoint",
    "error",
    "A node that calls another model names an endpoint. Declare it under `endpoints`.",
    wrong=minimal_recipe(_JUDGED, _MEASURED),
    right=minimal_recipe(_JUDGED, _MEASURED, ("rewards:\n", f"{_CRITIC}rewards:\n")),
)
_RIGHT = "{score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}"
DOMINATED_TERM = Code(
    "PT0510",
    "dominated term in a sum",
    "warning",
    "One term causes nearly all of the variation of this sum, so the other terms have almost no effect."
    " Scale this term down, or the other terms up.",
    wrong=minimal_recipe(
        (_RIGHT, f"{{sum: [{{scale: {{of: {{present: completion}}, factor: 100}}}}, {_RIGHT}]}}")
    ),
    right=minimal_recipe(
        (_RIGHT, f"{{sum: [{{scale: {{of: {{present: completion}}, factor: 0.2}}}}, {_RIGHT}]}}")
    ),
)
_NEAR = "{similarity: {of: completion, to: answer}}"
_STEPS = "{{thresholds: {{of: {}, steps: [{}, {}], otherwise: 0}}}}"
UNREACHABLE_CASE = Code(
    "PT0511",
    "unreachable case",
    "warning",
    "The cases are tried in order, and the first case that matches decides. This case is outside the range"
    " of its value, or an earlier case always matches first.",
    wrong=minimal_recipe(
        (_RIGHT, _STEPS.format(_NEAR, "{at_least: 0.5, then: 1}", "{at_least: 0.9, then: 2}"))
    ),
    right=minimal_recipe(
        (_RIGHT, _STEPS.format(_NEAR, "{at_least: 0.9, then: 2}", "{at_least: 0.5, then: 1}"))
    ),
)
_EQUAL = "{math_equal: {of: completion, to: answer}}"
_EITHER = "{{any: [{}, {{compare: {{of: {}, above: {}}}}}]}}"
CONSTANT_NODE = Code(
    "PT0512",
    "constant reward node",
    "warning",
    "The ranges of the operands show that this node has the same value for every completion. Common causes"
    " are a comparison with a bound that is out of range, and a score with equal branches.",
    wrong=minimal_recipe((_EQUAL, _EITHER.format(_EQUAL, _NEAR, 1.5))),
    right=minimal_recipe((_EQUAL, _EITHER.format(_EQUAL, _NEAR, 0.5))),
)
# The diagnostic for each kind of remark that an op makes about its operands.
REMARKS = {"refused": BAD_NODE, "unreachable": UNREACHABLE_CASE, "dominated": DOMINATED_TERM}
CODES = (
    UNKNOWN_OP,
    UNKNOWN_NODE,
    WRONG_OPERAND,
    BAD_NODE,
    CONSTANT_REWARD,
    UNUSED_NODE,
    BAD_TYPE,
    CIRCULAR_NODES,
    UNKNOWN_ENDPOINT,
    DOMINATED_TERM,
    UNREACHABLE_CASE,
    CONSTANT_NODE,
)
