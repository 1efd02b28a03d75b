"""Log-probabilities of tokens, without ever holding all logits at once.

The hidden states go through the head in chunks. For the gradient the logits of a chunk are computed
again, so that a long completion over a large vocabulary costs the memory of one chunk.
"""

from typing import Any

# Logits in a chunk: 64 MiB of them in float32.
_CHUNK_ELEMENTS = 1 << 24


def token_logprobs(
    hidden: Any, tokens: Any, model: Any, temperature: float, entropy: bool = False
) -> tuple[Any, Any]:
    """The log-probability of each token, and the entropy of the distribution it was drawn from.

    `hidden` has the state before each of the tokens, `model` is the one whose head they go through,
    and `entropy` whether a gradient goes through the entropy.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    flat, targets = hidden.flatten(0, 1), tokens.flatten()
    size = max(1, _CHUNK_ELEMENTS // model.get_output_embeddings().weight.shape[0])
    found: list[Any] = []
    for states, some in zip(flat.split(size), targets.split(size), strict=True):
        arguments = (states, some, model, temperature, entropy)
        if len(flat) <= size or not torch.is_grad_enabled():
            found.append(_chunk_logprobs(*arguments))
        else:
            found.append(checkpoint(_chunk_logprobs, *arguments, use_reentrant=False))
    logprobs, entropies = (torch.cat([one[part] for one in found]) for part in (0, 1))
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
    """What some architectures do to the logits after their head: Cohere, Granite, Gemma."""
    config = model.config.get_text_config()
    if getattr(config, "logit_scale", None) is not None:
        logits = logits * config.logit_scale
    if getattr(config, "logits_scaling", None) is not None:
        logits = logits / config.logits_scaling
    cap = getattr(config, "final_logit_softcapping", None)
    return logits if cap is None else (logits / cap).tanh() * cap
