"""Gives added tokens rows of the embeddings and of the output layer, and initializes them."""

from typing import Any

from posttrain.runtime.models.added_tokens import AddedTokens
from posttrain.spec.tokenizer_declaration import Tokenizer


def resize_embeddings(model: Any, added: AddedTokens, declared: Tokenizer, seed: int) -> None:
    """Add rows for the tokens, and initialize those of new tokens. The model never shrinks.

    Many published models have more rows than their tokenizer has tokens. New tokens take these rows first,
    which training never touched; transformers leaves them as they are.
    """
    from transformers import set_seed

    embeddings = model.get_input_embeddings()
    rows = embeddings.weight.shape[0]
    set_seed(seed)  # transformers draws the rows at random
    model.resize_token_embeddings(
        max(rows, added.size), pad_to_multiple_of=declared.resize_to_multiple_of, mean_resizing=True
    )
    for token, pieces in added.pieces.items():
        if declared.new_embeddings == "subtoken_mean":
            _set_row(model, token, pieces)
        elif token < rows:
            _set_row(model, token, range(added.former_size))


def _set_row(model: Any, token: int, others: Any) -> None:
    """Set the row of a token to the mean of other rows, in the input embeddings and in the output layer."""
    import torch

    chosen = torch.as_tensor(list(others))
    for weight in _row_weights(model):
        with torch.no_grad():
            weight[token] = weight[chosen].float().mean(dim=0).to(weight.dtype)


def _row_weights(model: Any) -> list[Any]:
    """The weights with a row for each token. Shared weights occur once."""
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    found = [embeddings.weight]
    if head is not None:
        found += [head.weight] if head.weight is not embeddings.weight else []
        found += [head.bias] if getattr(head, "bias", None) is not None else []
    return found
