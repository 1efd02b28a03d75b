"""What can be wrong with how a stage asks its models."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code

_EVAL_STAGE = "  check: {eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}}\n"


def eval_example(stage: str, *changes: tuple[str, str]) -> str:
    """The small recipe with another eval, and an endpoint for those that ask one."""
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
    "a model that cannot be asked like that",
    "error",
    "An endpoint generates over HTTP. It takes no `engine`, no `sampling.stop` and no"
    " `sampling.continuous_batching`, and of `top_k`, `min_p`, `repetition_penalty` and `seed` only what its"
    " provider's interface has. The endpoints of Anthropic and Gemini take conversations only, not `prompts:"
    " plain`. A list of models names each model once.",
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
    "samples that cannot serve",
    "error",
    "Several completions of a prompt differ only when they are drawn: at temperature 0 they are all the"
    " same. pass@k needs at least k of them; the best of a row, and a pair, need two.",
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
    "shots that do not go with the data",
    "error",
    "Shots are rows with a text `prompt` and the column that `answer` names. They stand before text prompts,"
    " and there must be as many as `count`, beside the row's own.",
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
    "a template without a place for the prompt",
    "error",
    "A template is a text file with {prompt} where the row's prompt goes. The prompt is text then.",
    wrong=eval_example(
        "{eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}, template: ask.txt}"
    ),
    right=MINIMAL_RECIPE,
    files=(("ask.txt", "Add these numbers.\n"),),
)
BAD_KEEP = Code(
    "PT0675",
    "a choice among samples that cannot be made",
    "error",
    "`keep` chooses by the score of a reward: it needs `reward`, and a threshold within the range of that.",
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
    "a dialogue that cannot be held",
    "error",
    "In the texts of a dialogue {COLUMN} stands for a column of the data. A dialogue is kept as a whole: it"
    " takes no template, no shots, no reward and no `keep`.",
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
