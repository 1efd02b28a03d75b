"""Gives a tokenizer a built-in chat template, and the model its end of turn."""

from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.spec.chat_templates.builtin_templates import BUILTIN_TEMPLATES, BuiltinTemplate
from posttrain.spec.step_params.artifact_params import BuiltinTemplateParams

_GENERATION_FILE = "generation_config.json"


def find_template(chosen: BuiltinTemplateParams) -> BuiltinTemplate:
    """The template of the plan. Raises StepError if this release has another text for it."""
    template = BUILTIN_TEMPLATES.get(chosen.name)
    if template is None or template.sha256 != chosen.sha256:
        raise StepError(
            f"this release has another chat template `{chosen.name}` than the one that made the plan",
            "plan the recipe again with this release",
        )
    return template


def set_builtin_template(tokenizer: Any, template: BuiltinTemplate, *, add_tokens: bool) -> None:
    """Set the template, with its end of turn as the end token.

    Tokens that the tokenizer lacks are added if `add_tokens`, for a model whose weights do not exist yet.
    """
    if add_tokens:
        _add_missing_tokens(tokenizer, template)
    needed = [*template.required, *([template.end_of_turn] if template.end_of_turn else [])]
    missing = [token for token in needed if not _is_one_token(tokenizer, token)]
    if missing:
        raise StepError(
            f"the tokenizer has no token {' or '.join(missing)}, which the chat template `{template.name}`"
            " needs",
            "use the template of the model's own family, or a .jinja file that uses {{ eos_token }}, or list"
            " the tokens in `tokenizer: {added_special_tokens: [...]}`",
        )
    former = tokenizer.eos_token
    if template.end_of_turn is not None and former != template.end_of_turn:
        tokenizer.eos_token = template.end_of_turn
        if tokenizer.pad_token is None and former is not None:
            tokenizer.pad_token = former
    tokenizer.chat_template = template.text


def add_end_of_turn(folder: Path, tokenizer: Any) -> None:
    """Add the tokenizer's end token to the end tokens in `generation_config.json` of a model's folder."""
    settings = _generation_settings(folder)
    ends = settings.get("eos_token_id")
    known = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if tokenizer.eos_token_id in known:
        return
    settings["eos_token_id"] = [tokenizer.eos_token_id, *known]
    atomic_io.write_json(folder / _GENERATION_FILE, settings)


def set_padding(folder: Path, tokenizer: Any) -> None:
    """Set the padding token of the tokenizer in the configurations of a model's folder."""
    token = {"pad_token_id": tokenizer.pad_token_id}
    atomic_io.write_json(folder / _GENERATION_FILE, _generation_settings(folder) | token)
    atomic_io.write_json(folder / "config.json", atomic_io.read_json(folder / "config.json") | token)


def _generation_settings(folder: Path) -> dict[str, Any]:
    """The generation configuration of a model's folder; without one, that of its config.json."""
    settings = atomic_io.read_json(folder / _GENERATION_FILE)
    if settings is not None:
        return settings
    config = atomic_io.read_json(folder / "config.json")
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    return {name: config[name] for name in names if config.get(name) is not None}


def _add_missing_tokens(tokenizer: Any, template: BuiltinTemplate) -> None:
    special = [token for token in (template.end_of_turn, template.bos) if token is not None]
    missing = [
        token
        for token in (*special, *template.required, *template.markers)
        if not _is_one_token(tokenizer, token)
    ]
    tokenizer.add_tokens(missing, special_tokens=True)
    tokenizer.add_tokens([token for token in template.generated if not _is_one_token(tokenizer, token)])
    if template.bos is not None and tokenizer.bos_token is None:
        tokenizer.bos_token = template.bos


def _is_one_token(tokenizer: Any, token: str) -> bool:
    ids = tokenizer(token, add_special_tokens=False)["input_ids"]
    return len(ids) == 1 and ids[0] != tokenizer.unk_token_id
