"""Checks the tags that rewards look for: the model can generate them, and they match its declared tags."""

import re
from collections.abc import Iterator, Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.model_templates import template_text
from posttrain.compiler.resolution.lineage import Lineage
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.text.compile_request import ReadFile
from posttrain.compiler.text.yaml_tree import KeyPath, ScalarNode, node_at, walk_nodes
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.diagnostic import Code, Label
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.model_declaration import Model
from posttrain.spec.suggestions import closest_match
from posttrain.spec.tokenizer_declaration import Tokenizer
from posttrain.spec.train_stage import Train

_TOKENIZER = "tokenizer: {init: characters}"
_LETTERS = 'tokenizer: {init: characters, alphabet: "0123456789+=?"%s}'
_BETWEEN = (
    "math_equal: {of: completion,",
    "math_equal: {of: {between: {of: completion, open: <answer>, close: </answer>}},",
)
UNTOKENIZABLE_TAG = Code(
    "PT0811",
    "tag that the tokenizer cannot produce",
    "error",
    "A character tokenizer has only its alphabet and its `added_tokens`. The model can never generate a text"
    " with any other character, so a reward that looks for this tag gives every completion the same value."
    " Add the tag to `added_tokens`, which makes it one token, or add its characters to `alphabet`.",
    wrong=minimal_recipe((_TOKENIZER, _LETTERS % ""), _BETWEEN),
    right=minimal_recipe((_TOKENIZER, _LETTERS % ", added_tokens: [<answer>, </answer>]"), _BETWEEN),
)
MISMATCHED_TAGS = Code(
    "PT0812",
    "tags of the model and the reward differ",
    "warning",
    "The tags, the chat template and the added tokens of the model define the format of its completions, but"
    " the reward looks for other tags. A model that follows its format gets no reward. Use the same tags in"
    " both places.",
    wrong=minimal_recipe(
        (_TOKENIZER, _TOKENIZER + "\n    tags: {answer: [<solution>, </solution>]}"), _BETWEEN
    ),
    right=minimal_recipe((_TOKENIZER, _TOKENIZER + "\n    tags: {answer: [<answer>, </answer>]}"), _BETWEEN),
)
CODES = (UNTOKENIZABLE_TAG, MISMATCHED_TAGS)
_TAG = re.compile(r"</?[A-Za-z_][\w-]*>")


def check_tags(
    resolved: ResolvedRecipe,
    graphs: Mapping[str, RewardGraph],
    lineages: Mapping[str, Lineage],
    read: ReadFile,
    diagnostics: Diagnostics,
) -> None:
    """Check every model against the tags of the rewards that score its completions."""
    for name, reward in _model_rewards(resolved, lineages):
        graph = graphs.get(reward)
        for tag in _required_tags(graph) if graph is not None else ():
            where = _tag_path(reward, tag, diagnostics)
            _check_tokenizable(name, tag, where, resolved, diagnostics)
            _check_declared(name, tag, where, resolved, read, diagnostics)


def _model_rewards(resolved: ResolvedRecipe, lineages: Mapping[str, Lineage]) -> list[tuple[str, str]]:
    """Return each declared model with each reward that scores its completions, or those of a stage based
    on it."""
    found: dict[tuple[str, str], None] = {}
    for (owner, role), ref in resolved.refs.items():
        thing, _, name = owner.partition(":")
        stage = resolved.recipe.stages.get(name) if thing == "stage" else None
        reward = stage.reward if isinstance(stage, Train | Evaluate | Generate) else None
        line = lineages.get(ref.product)
        if reward is not None and line is not None and line.origin and role.partition(":")[0] == "model":
            found[line.origin, reward] = None
    return list(found)


def _required_tags(graph: RewardGraph) -> Iterator[str]:
    """Yield the tags that a graph looks for in completions. Tags in other columns do not count."""
    of_completion: set[str] = set()
    for node in graph.nodes:
        if _reads_completion(node["operands"], of_completion):
            of_completion.add(node["id"])
            params = node["params"]
            match node["op"]:
                case "between":
                    yield from (params["open"], params["close"])
                case "in_order":
                    yield from params["tags"]
                case _:
                    pass


def _reads_completion(operands: Mapping[str, object], of_completion: set[str]) -> bool:
    operand = operands.get("of")
    if not isinstance(operand, dict):
        return False
    return operand.get("read") == "completion" or operand.get("node") in of_completion


def _tag_path(reward: str, tag: str, diagnostics: Diagnostics) -> KeyPath:
    """Return the place of the tag in the reward."""
    path: KeyPath = ("rewards", reward)
    below = walk_nodes(node_at(diagnostics.root, path)[0], path)
    return next((p for p, node in below if isinstance(node, ScalarNode) and node.value == tag), path)


def _check_tokenizable(
    name: str, tag: str, where: KeyPath, resolved: ResolvedRecipe, diagnostics: Diagnostics
) -> None:
    tokenizer = resolved.recipe.models[name].tokenizer
    lacking = missing_characters(tag, tokenizer) if tokenizer is not None else ""
    if lacking:
        listed = " ".join(lacking)
        message = f"`{name}` can never generate `{tag}`: its tokenizer has no {listed}"
        help = f"add `{tag}` to the `added_tokens` of its tokenizer"
        span = diagnostics.span(("models", name, "tokenizer"), key=True)
        diagnostics.add(UNTOKENIZABLE_TAG, where, message, help=help, labels=(Label(span, "its tokenizer"),))


def missing_characters(text: str, tokenizer: Tokenizer) -> str:
    """Return the characters of a text that a character tokenizer does not have."""
    if tokenizer.init != "characters":
        return ""
    for word in sorted(tokenizer.new_tokens, key=len, reverse=True):
        text = text.replace(word, "") if word else text
    return "".join(dict.fromkeys(character for character in text if character not in tokenizer.alphabet))


def _check_declared(
    name: str, tag: str, where: KeyPath, resolved: ResolvedRecipe, read: ReadFile, diagnostics: Diagnostics
) -> None:
    model = resolved.recipe.models[name]
    declared, others = _declared_tags(model), _other_tags(model, read)
    if tag in declared or tag in others or any(tag in text for text in declared):
        return
    alike = [word for word in (*declared, *others) if word.startswith("</") == tag.startswith("</")]
    near = closest_match(tag, alike)
    if near is None and not declared:
        return
    message = f"the reward looks for `{tag}`, but `{name}` has other tags"
    help = f"did you mean `{near}`?" if near else f"its tags: {', '.join(declared)}"
    diagnostics.add(MISMATCHED_TAGS, where, message, help=help, replace=near)


def _declared_tags(model: Model) -> list[str]:
    tags = model.tags
    return [] if tags is None else [*(tags.think or ()), *(tags.answer or ())]


def _other_tags(model: Model, read: ReadFile) -> list[str]:
    """Return other texts that look like tags: added tokens, and tags in the chat template."""
    words = model.tokenizer.new_tokens if model.tokenizer is not None else []
    return [*words, *_TAG.findall(template_text(model, read) or "")]
