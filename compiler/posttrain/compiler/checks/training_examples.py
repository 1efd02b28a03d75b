"""The example recipes of the training diagnostics: one on a published model, one with preference pairs."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_MODEL, MINIMAL_RECIPE, minimal_recipe

_PUBLISHED = "    from: Qwen/Qwen2.5-0.5B-Instruct\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n"
_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"
_STEPS = "      - split: {test: 100}\n"
_PAIRS = "      - derive: {chosen: completion, rejected: \"'7'\"}\n"


def published_example(*changes: tuple[str, str]) -> str:
    """Return the minimal recipe with a published model."""
    return minimal_recipe((MINIMAL_MODEL, _PUBLISHED), *changes)


def training_example(stage: str, *, hub: bool = False) -> str:
    """Return the minimal recipe with another training stage, over data that also has preference pairs."""
    changes = ((_STEPS, _PAIRS + _STEPS), (_TRAIN, stage))
    return published_example(*changes) if hub else minimal_recipe(*changes)


__all__ = ["MINIMAL_RECIPE", "published_example", "training_example"]
