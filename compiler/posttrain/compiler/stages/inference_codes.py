"""The diagnostics about inference: sampling, few-shot examples, prompt templates and dialogues."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code

_EVAL_STAGE = "  check: {eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}}\n"


def eval_example(stage: str, *changes: tuple[str, str]) -> str:
    """Return the minimal recipe with another eval stage; `changes` can add an endpoint."""
    return minimal_recipe((_EVAL_STAGE, f"  check: {stage}\n"), *changes)


_ENDPOINT = (
    "rewards:",
    (
        "endpoints:\n"
        "  claude: {provider: anthropic, model: claude-sonnet-4-5, api_key: {env: ANTHROPIC_API_KEY}}\n"
        "rewards:"
    ),
)
UNSUPPORTED_INFERENCE = Code(
    "PT0671",
    "unsupported inference option",
    "error",
    "An endpoint generates over HTTP. It does not support `engine`, `sampling.stop` or"
    " `sampling.continuous_batching`. It supports `top_k`, `min_p`, `repetition_penalty` and `seed` only if"
    " the API of its provider has them. Anthropic and Gemini endpoints take conversations only, so `prompts:"
    " plain` does not work with them. A list of models names each model once.",
    wrong=eval_example(
        "{eval: claude, prompts: plain, data: sums.test, reward: right, metrics: {score: {mean: returns}}}",
        _ENDPOINT,
    ),
    right=eval_example(
        "{eval: claude, data: sums.test, reward: right, metrics: {score: {mean: returns}}}", _ENDPOINT
    ),
)
INVALID_SAMPLING = Code(
    "PT0672",
    "invalid number of samples",
    "error",
    "At temperature 0 all completions of a prompt are the same, so several samples need a temperature above"
    " 0. pass@k needs at least k samples, and `keep: best` and `keep: pair` need at least two.",
    wrong=eval_example(
        "{eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}, sampling: {n: 4}}"
    ),
    right=eval_example(
        "{eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}},"
        " sampling: {n: 4, temperature: 1.0}}"
    ),
)
BAD_FEW_SHOT = Code(
    "PT0673",
    "invalid few-shot examples",
    "error",
    "Few-shot examples are rows with a text column `prompt` and the column that `answer` names. They are"
    " placed in front of text prompts. The dataset needs at least `num_fewshot` rows besides the evaluated"
    " row.",
    wrong=eval_example(
        "{eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}},"
        " few_shot: {data: sums.train, answer: solution}}"
    ),
    right=eval_example(
        "{eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}},"
        " few_shot: {data: sums.train}}"
    ),
)
BAD_PROMPT_TEMPLATE = Code(
    "PT0674",
    "prompt template without {prompt}",
    "error",
    "A template is a text file that contains {prompt}, which is replaced by the prompt of the row. Templates"
    " work with text prompts only.",
    wrong=eval_example(
        "{eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}, template: ask.txt}"
    ),
    right=MINIMAL_RECIPE,
    files=(("ask.txt", "Add these numbers.\n"),),
)
BAD_KEEP = Code(
    "PT0675",
    "invalid `keep` of a generate stage",
    "error",
    "`keep` selects samples by their reward. It needs `reward`, and a `min_score` within the range of that"
    " reward.",
    wrong=minimal_recipe(
        (
            "stages:",
            (
                "stages:\n  more: {generate: base, data: sums.train, keep: best,"
                " sampling: {n: 4, temperature: 1.0}}"
            ),
        )
    ),
    right=minimal_recipe(
        (
            "stages:",
            (
                "stages:\n  more: {generate: base, data: sums.train, reward: right, keep: best,"
                " sampling: {n: 4, temperature: 1.0}}"
            ),
        )
    ),
)
BAD_DIALOGUE = Code(
    "PT0676",
    "invalid dialogue",
    "error",
    "In the texts of a dialogue, {COLUMN} is replaced by the value of a column. A dialogue is stored as one"
    " conversation, so it takes no template, few-shot examples, reward or `keep`.",
    wrong=minimal_recipe(
        (
            "stages:",
            (
                "stages:\n  talk: {generate: base, data: sums.train,"
                " dialogue: {with: base, max_turns: 3, opening: 'Hello {name}'}}"
            ),
        )
    ),
    right=minimal_recipe(
        (
            "stages:",
            (
                "stages:\n  talk: {generate: base, data: sums.train,"
                " dialogue: {with: base, max_turns: 3, opening: 'What is {prompt}'}}"
            ),
        )
    ),
)
CODES = (UNSUPPORTED_INFERENCE, INVALID_SAMPLING, BAD_FEW_SHOT, BAD_PROMPT_TEMPLATE, BAD_KEEP, BAD_DIALOGUE)
