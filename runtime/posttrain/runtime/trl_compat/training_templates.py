"""Finds the training template of a published chat template whose model declares `chat_template_kwargs`.

TRL adds the markers of the assistant's turns to published templates, which it compares in full. The lines
that set the model's default arguments are removed before, and added to the result.

    trl/trainer/sft_trainer.py:942 `SFTTrainer.__init__`: `get_training_chat_template(processing_class)`
"""

from copy import copy
from typing import Any

from posttrain.runtime.models.template_arguments import split_default_arguments


def patch_training_templates() -> None:
    """Have SFTTrainer recognise templates with default arguments."""
    from trl.trainer import sft_trainer

    module: Any = sft_trainer
    module.get_training_chat_template = training_template


def training_template(tokenizer: Any) -> str | None:
    """The template with markers; None if it is the tokenizer's own. Raises ValueError for an unknown one."""
    from trl.chat_template_utils import get_training_chat_template

    if not isinstance(tokenizer.chat_template, str):
        return get_training_chat_template(tokenizer)
    defaults, template = split_default_arguments(tokenizer.chat_template)
    plain = copy(tokenizer)
    plain.chat_template = template
    marked = get_training_chat_template(plain)
    return None if marked is None else defaults + marked
