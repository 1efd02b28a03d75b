"""The number of embeddings of a model to which a recipe adds tokens."""

from collections.abc import Mapping
from typing import Any, cast

from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.model_json import read_model_json
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.chat_templates.builtin_templates import BuiltinTemplate, character_vocabulary
from posttrain.spec.model_declaration import Model
from posttrain.spec.origin_names import is_folder
from posttrain.spec.tokenizer_declaration import Tokenizer


def tokenizer_size(
    tokenizer: Tokenizer, template: BuiltinTemplate | None, request: CompileRequest
) -> int | None:
    """The number of embeddings that a model created with `init` has for its tokenizer.

    For the tokenizer of a published model it is an estimate: the number of embeddings of that model.
    """
    if tokenizer.from_ is not None:
        published = find_shape(tokenizer.from_)
        rows = published.vocab if published is not None else _folder_tokens(tokenizer.from_, request)
        return None if rows is None else tokenizer.grown_vocabulary(rows)
    if tokenizer.init is None:
        return None
    tokens = character_vocabulary(
        tokenizer.alphabet, tokenizer.added_tokens, template, tokenizer.added_special_tokens
    )
    return tokenizer.rounded(len(tokens))


def with_added_tokens(shape: Shape | None, model: Model, request: CompileRequest) -> Shape | None:
    """The shape of a pretrained model with the tokens that the recipe adds to its tokenizer.

    Many models have more embeddings than tokens, and new tokens take these first. The tokenizer of a model
    on the hub is not known here: then each new token is assumed to need its own.
    """
    tokenizer = model.tokenizer
    if shape is None or tokenizer is None or tokenizer.init is not None:
        return shape
    if not tokenizer.new_tokens and tokenizer.resize_to_multiple_of is None:
        return shape
    return shape._replace(vocab=tokenizer.grown_vocabulary(shape.vocab, _used_rows(model, request)))


def estimated_vocabularies(models: Mapping[str, Model], request: CompileRequest) -> frozenset[str]:
    """The models whose number of embeddings is known only after their tokenizer is loaded."""
    return frozenset(
        name
        for name, model in models.items()
        if model.tokenizer is not None
        and model.tokenizer.init is None
        and (model.from_ is None or model.tokenizer.new_tokens)
        and _used_rows(model, request) is None
    )


def _used_rows(model: Model, request: CompileRequest) -> int | None:
    """The number of embeddings that the tokenizer of a model uses; None if it is not known."""
    tokenizer = model.tokenizer
    own = model.from_ if tokenizer is None or tokenizer.from_ is None else tokenizer.from_
    return None if own is None else _folder_tokens(own, request)


def _folder_tokens(origin: str, request: CompileRequest) -> int | None:
    """The number of token ids of the tokenizer in a local folder; None if it is not known."""
    if not is_folder(origin):
        return None
    found = read_model_json(origin, "tokenizer.json", request)
    added, inner = found.get("added_tokens"), found.get("model")
    vocabulary: Any = cast("dict[str, Any]", inner).get("vocab") if isinstance(inner, dict) else None
    if not isinstance(vocabulary, dict | list):
        return None
    # Byte-pair vocabularies map tokens to ids; those of Unigram are a list.
    known = cast("dict[str, Any] | list[Any]", vocabulary)
    ids = list(known.values()) if isinstance(known, dict) else list(range(len(known)))
    ids += [one.get("id") for one in cast("list[Any]", added or []) if isinstance(one, dict)]
    return max((each for each in ids if isinstance(each, int)), default=-1) + 1
