"""Computes log-probabilities of tokens in chunks, without all logits in memory at once.

The backward pass recomputes the logits of each chunk, so that a long completion with a large vocabulary needs
the memory of only one chunk.
"""

from typing import Any

# Logits in a chunk: 64 MiB of them in float32.
_CHUNK_ELEMENTS = 1 << 24


def token_logprobs(
    hidden: Any, tokens: Any, model: Any, temperature: float, entropy: bool = False
) -> tuple[Any, Any]:
    """Return the log-probability of each token, and the entropy of its distribution.

    `hidden` holds the hidden state before each token, and `model` is the model with the output layer. With
    `entropy`, the gradient includes the entropy.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    flat, targets = hidden.flatten(0, 1), tokens.flatten()
    size = max(1, _CHUNK_ELEMENTS // model.get_output_embeddings().weight.shape[0])
    chunks: list[Any] = []
    for states, some in zip(flat.split(size), targets.split(size), strict=True):
        arguments = (states, some, model, temperature, entropy)
        if len(flat) <= size or not torch.is_grad_enabled():
            chunks.append(_chunk_logprobs(*arguments))
        else:
            chunks.append(checkpoint(_chunk_logprobs, *arguments, use_reentrant=False))
    logprobs, entropies = (torch.cat([chunk[part] for chunk in chunks]) for part in (0, 1))
    return logprobs.view(tokens.shape), entropies.view(tokens.shape)


def _chunk_logprobs(
    states: Any, tokens: Any, model: Any, temperature: float, entropy: bool
) -> tuple[Any, Any]:
    logits = _scale_logits(model.get_output_embeddings()(states), model).float() / temperature
    whole = logits.logsumexp(dim=-1, keepdim=True)
    logprobs = logits.gather(-1, tokens.unsqueeze(-1)) - whole
    parts = (logits, whole) if entropy else (logits.detach(), whole.detach())
    return logprobs.squeeze(-1), _entropy(*parts)


def _entropy(logits: Any, whole: Any) -> Any:
    return whole.squeeze(-1) - ((logits - whole).exp() * logits).sum(dim=-1)


def _scale_logits(logits: Any, model: Any) -> Any:
    """Apply the logit scaling or soft-capping of some architectures: Cohere, Granite, Gemma."""
    config = model.config.get_text_config()
    if getattr(config, "logit_scale", None) is not None:
        logits = logits * config.logit_scale
    if getattr(config, "logits_scaling", None) is not None:
        logits = logits / config.logits_scaling
    cap = getattr(config, "final_logit_softcapping", None)
    return logits if cap is None else (logits / cap).tanh() * cap
