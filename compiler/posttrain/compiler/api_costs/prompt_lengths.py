"""The lengths of prompts in tokens: counted where the recipe contains the rows, else assumed."""

from typing import Any, NamedTuple, cast

from posttrain.compiler.semantic_checks import CheckedRecipe

# Characters of a token, in text that tokenizes badly and in plain English.
CHARS_PER_TOKEN = (3, 5)
# Tokens that a chat template adds to a message.
_CHAT_TOKENS = (4, 10)
# Tokens of a prompt that is not known, with its template.
ASSUMED_PROMPT = (20, 512)
# Data steps that leave a prompt as it is.
_KEEPING_STEPS = frozenset(("where", "sample", "split", "sort", "dedup", "select"))


class TokenRange(NamedTuple):
    """A number as a range."""

    least: int
    most: int


def text_tokens(text: str) -> TokenRange:
    return TokenRange(len(text) // CHARS_PER_TOKEN[1], -(-len(text) // CHARS_PER_TOKEN[0]))


def prompt_tokens(stage: str, declared: Any, checked: CheckedRecipe) -> TokenRange:
    """Return the tokens of the shortest and the longest prompt of a stage, with its few-shot examples."""
    texts = _literal_prompts(stage, checked)
    # The text of a template is not known here.
    known = texts and getattr(declared, "template", None) is None
    ranges = [_message_tokens(text) for text in texts] if known else [TokenRange(*ASSUMED_PROMPT)]
    shots = getattr(declared, "few_shot", None)
    many = 1 + (shots.num_fewshot if shots is not None else 0)
    return TokenRange(many * min(one.least for one in ranges), many * max(one.most for one in ranges))


def _message_tokens(text: str) -> TokenRange:
    alone = text_tokens(text)
    return TokenRange(alone.least + _CHAT_TOKENS[0], alone.most + _CHAT_TOKENS[1])


def _literal_prompts(stage: str, checked: CheckedRecipe) -> list[str]:
    """Return the prompts of a stage whose rows stand in the recipe, or none."""
    ref = checked.resolved.refs.get((f"stage:{stage}", "data"))
    declared = checked.resolved.recipe.datasets.get(ref.name) if ref is not None else None
    source = declared.from_ if declared is not None else None
    if declared is None or not isinstance(source, dict):
        return []
    rows = cast(dict[str, Any], source).get("rows")
    values = rows.get("rows") if isinstance(rows, dict) else rows
    if not isinstance(values, list) or any(not _KEEPING_STEPS.issuperset(step) for step in declared.steps):
        return []
    prompts = [row.get("prompt") for row in cast(list[Any], values) if isinstance(row, dict)]
    return [prompt for prompt in prompts if isinstance(prompt, str)]
