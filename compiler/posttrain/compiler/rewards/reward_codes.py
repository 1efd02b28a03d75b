"""What can be wrong with a reward graph."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code

UNKNOWN_OP = Code(
    "PT0501",
    "an unknown reward op",
    "error",
    "A node is a mapping of one key, the op's name, to its operands and parameters.",
    wrong=minimal_recipe(("{math_equal:", "{maths_equal:")),
    right=MINIMAL_RECIPE,
)
UNKNOWN_NODE = Code(
    "PT0502",
    "an unknown node",
    "error",
    "An operand names what the graph reads or one of its nodes. Literal text is written {text: ...}.",
    wrong=minimal_recipe(("of: completion, to: answer", "of: completion, to: anser")),
    right=MINIMAL_RECIPE,
)
WRONG_OPERAND = Code(
    "PT0503",
    "an operand of the wrong type",
    "error",
    "Each op takes operands of certain types and yields one type: `between` takes text and yields text,"
    " `score` takes a condition and yields a number.",
    wrong=minimal_recipe(("when: {math_equal: {of: completion, to: answer}}", "when: completion")),
    right=MINIMAL_RECIPE,
)
BAD_NODE = Code(
    "PT0504",
    "a node that is not written as one",
    "error",
    "A node is a name, a number, or a mapping of one op to its operands. Operands without a default"
    " must be given.",
    wrong=minimal_recipe(("{math_equal: {of: completion, to: answer}}", "{math_equal: {of: completion}}")),
    right=MINIMAL_RECIPE,
)
CONSTANT_REWARD = Code(
    "PT0505",
    "a reward that cannot vary",
    "error",
    "Whatever the model writes, this reward has the same value, so nothing can be learnt from it.",
    wrong=minimal_recipe(("then: 1.0}}", "then: 0.0}}")),
    right=MINIMAL_RECIPE,
)
UNUSED_NODE = Code(
    "PT0506",
    "a node that nothing uses",
    "warning",
    "The node counts neither in the reward nor in any metric.",
    wrong=minimal_recipe(("    returns:", "    nodes: {there: {present: completion}}\n    returns:")),
    right=MINIMAL_RECIPE,
)
BAD_TYPE = Code(
    "PT0507",
    "a type that does not exist",
    "error",
    "`reads` gives each name one of the types text, integer, number, boolean, messages, list<TYPE>, any.",
    wrong=minimal_recipe(("answer: text}", "answer: string}")),
    right=MINIMAL_RECIPE,
)
CIRCULAR_NODES = Code(
    "PT0508",
    "nodes that need each other",
    "error",
    "A node is computed from its operands, so it cannot be, by any way round, its own operand.",
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
    "an unknown endpoint",
    "error",
    "A node that asks another model names one of the endpoints declared under `endpoints`.",
    wrong=minimal_recipe(_JUDGED, _MEASURED),
    right=minimal_recipe(_JUDGED, _MEASURED, ("rewards:\n", f"{_CRITIC}rewards:\n")),
)
_RIGHT = "{score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}"
DOMINATED_TERM = Code(
    "PT0510",
    "a term that drowns the others",
    "warning",
    "Nearly all of what this sum can vary by comes from one of its terms, so the others hardly count:"
    " scale it down, or the others up.",
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
    "a case that is never reached",
    "warning",
    "The cases are tried in order and the first that holds counts. This one lies beyond what its value can"
    " be, or behind a case that holds whenever it does.",
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
    "a node that cannot vary",
    "warning",
    "By the ranges of what it is made from, this node has the same value whatever the model writes: a"
    " comparison with a bound out of reach, say, or a score whose branches are equal.",
    wrong=minimal_recipe((_EQUAL, _EITHER.format(_EQUAL, _NEAR, 1.5))),
    right=minimal_recipe((_EQUAL, _EITHER.format(_EQUAL, _NEAR, 0.5))),
)
# What an op remarks on, by kind.
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
