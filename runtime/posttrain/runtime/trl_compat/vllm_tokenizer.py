"""Saves the tokenizer in a folder of merged weights, from which TRL starts vLLM.

TRL passes vLLM the folder of the weights and no tokenizer, so vLLM loads the tokenizer from there. A stage
that has merged an adapter into its starting weights has written a folder with weights only.

    trl/generation/vllm_generation.py:348 `VLLMGeneration._init_vllm`: `model=model.name_or_path,`
"""

from pathlib import Path
from typing import Any


def save_tokenizer_beside_weights(model: Any, tokenizer: Any, scratch: Path) -> None:
    """Save the tokenizer in the folder of weights that the stage has merged: vLLM loads it from there."""
    folder = Path(model.name_or_path)
    if folder.is_relative_to(scratch):
        tokenizer.save_pretrained(folder)
