"""The recipes that the pages of these checks vary: over a published model, and over pairs."""

from posttrain.compiler.diagnosis.examples import MINIMAL, minimal

_SCRATCH = "    init: {family: qwen2, layers: 2, hidden: 64, heads: 4}\n    tokenizer: {init: characters}\n"
_PUBLISHED = "    from: Qwen/Qwen2.5-0.5B-Instruct\n    revision: 7ae557604adf67be50417f59c2c2f167def9a775\n"
_TRAIN = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch: 4}}"
_STEPS = "      - split: {test: 100}\n"
_PAIRS = "      - derive: {chosen: completion, rejected: \"'7'\"}\n"


def published(*changes: tuple[str, str]) -> str:
    """The small recipe over a published model."""
    return minimal((_SCRATCH, _PUBLISHED), *changes)


def training(stage: str, *, hub: bool = False) -> str:
    """The small recipe with another training stage, over data that also holds pairs."""
    changes = ((_STEPS, _PAIRS + _STEPS), (_TRAIN, stage))
    return published(*changes) if hub else minimal(*changes)


__all__ = ["MINIMAL", "published", "training"]
