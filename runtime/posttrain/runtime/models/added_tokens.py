"""Adds the tokens of a recipe to a tokenizer, and sets its end and padding token."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.tokenizer_declaration import Tokenizer


@dataclass(frozen=True)
class AddedTokens:
    """Tokens that a tokenizer has in addition to those of the model."""

    # The ids of each new token's text before it was a token, by the id of the new token.
    pieces: Mapping[int, tuple[int, ...]]
    # The size of the tokenizer before.
    former_size: int
    # The number of rows of embeddings that the tokenizer needs now.
    size: int


def add_tokens(tokenizer: Any, declared: Tokenizer) -> AddedTokens:
    """Add the tokens to a tokenizer, and set its end and padding token.

    Raises StepError for tokens that it has already.
    """
    from tokenizers import AddedToken

    former = tokenizer_size(tokenizer)
    places = {
        token: f"tokenizer.{name}[{index}]"
        for name in ("added_tokens", "added_special_tokens")
        for index, token in enumerate(getattr(declared, name))
    }
    pieces = {token: _known_pieces(tokenizer, token, place) for token, place in places.items()}
    _check_normalized(tokenizer, places)
    # Without normalization: the text of the token becomes the token, and no other text does.
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in declared.added_tokens])
    if declared.added_special_tokens:
        special = [
            AddedToken(token, normalized=False, special=True) for token in declared.added_special_tokens
        ]
        tokenizer.add_special_tokens({"extra_special_tokens": special}, replace_extra_special_tokens=False)
    ids = {token: _own_id(tokenizer, token, place, former) for token, place in places.items()}
    _set_named_tokens(tokenizer, declared)
    return AddedTokens(
        {ids[token]: found for token, found in pieces.items()}, former, tokenizer_size(tokenizer)
    )


def tokenizer_size(tokenizer: Any) -> int:
    """The number of rows of embeddings that a tokenizer needs: the ids can have gaps."""
    return max(len(tokenizer), max(tokenizer.get_vocab().values(), default=-1) + 1)


def _known_pieces(tokenizer: Any, token: str, place: str) -> tuple[int, ...]:
    """The ids of the text of a token that the tokenizer does not have yet."""
    ids = tuple(tokenizer(token, add_special_tokens=False)["input_ids"])
    known = tokenizer.get_vocab().get(token)
    # The decoded text can lack characters that the tokenizer does not know.
    if known is None and len(ids) == 1 and tokenizer.decode(ids).strip() == _normalized(tokenizer, token):
        known = ids[0]
    if known is not None:
        name = tokenizer.convert_ids_to_tokens(known)
        alike = "" if name == token else f" `{name}`"
        raise StepError(f"{place}: `{token}` is already the token{alike} {known}", "remove it from the list")
    return ids


def _normalized(tokenizer: Any, token: str) -> str:
    normalizer = _normalizer(tokenizer)
    normal = token if normalizer is None else normalizer.normalize_str(token)
    return normal.replace("▁", " ").strip()  # SentencePiece writes spaces like this


def _normalizer(tokenizer: Any) -> Any:
    return getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)


def _check_normalized(tokenizer: Any, places: Mapping[str, str]) -> None:
    """Refuse tokens that the normalizer of the tokenizer does not distinguish from other added tokens."""
    normalizer = _normalizer(tokenizer)
    if normalizer is None:
        return
    seen = {normalizer.normalize_str(token): token for token in tokenizer.get_added_vocab()}
    for token, place in places.items():
        normal = normalizer.normalize_str(token)
        if normal in seen:
            raise StepError(
                f"{place}: the tokenizer normalizes `{token}` to `{normal}`, as it does the token"
                f" `{seen[normal]}`",
                "use tokens that differ in more than case or accents",
            )
        seen[normal] = token


def _own_id(tokenizer: Any, token: str, place: str, former: int) -> int:
    ids = tokenizer(token, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] < former:
        names = " ".join(tokenizer.convert_ids_to_tokens(ids))
        raise StepError(
            f"{place}: the tokenizer splits `{token}` into {names} although it was added",
            "use a text without spaces at its ends",
        )
    return ids[0]


def _set_named_tokens(tokenizer: Any, declared: Tokenizer) -> None:
    """Set the end and the padding token. Raises StepError for tokens that the tokenizer lacks."""
    for name in ("eos_token", "pad_token"):
        token = getattr(declared, name)
        if token is None:
            continue
        if token not in tokenizer.get_vocab():
            raise StepError(
                f"tokenizer.{name}: the tokenizer has no token `{token}`",
                f"list `{token}` in `added_special_tokens`, or name a token that exists",
            )
        setattr(tokenizer, name, token)
