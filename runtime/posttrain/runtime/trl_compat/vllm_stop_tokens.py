"""Passes the trainer's end tokens to vLLM.

TRL passes no end tokens to vLLM, which reads them from the folder that it was started from. The tokenizer of
the stage may have others: completions would then not end where the trainer expects it.

    trl/generation/vllm_generation.py:672 `VLLMGeneration.generate`: `self.generation_kwargs`
"""

from collections.abc import Sequence
from typing import Any


def pass_stop_tokens(engine: Any, ends: Sequence[int]) -> None:
    """Set the engine's stop tokens, unless the recipe sets others."""
    engine.generation_kwargs = {"stop_token_ids": list(ends), **engine.generation_kwargs}
