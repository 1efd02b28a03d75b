"""Tokenizes the pairs of ORPO, CPO and SimPO like those of DPO.

The experimental trainers prepend BOS whenever the tokenizer has one, even if it adds none to a text and the
chat template has none. The model would then be trained on prompts that it never gets at inference. They
append EOS to a conversation whose template ends turns with EOS and a line break: it would end twice.

Their chat template gets no tools, so rows with tools are rendered here.

    trl/experimental/orpo/orpo_trainer.py:364 `ORPOTrainer.__init__`: `maybe_apply_chat_template,`
    trl/experimental/cpo/cpo_trainer.py:379 `CPOTrainer.__init__`: `maybe_apply_chat_template,`
    trl/experimental/orpo/orpo_trainer.py:517 `ORPOTrainer.tokenize_row`: `add_bos_token_if_needed(`
    trl/experimental/cpo/cpo_trainer.py:535 `CPOTrainer.tokenize_row`: `add_bos_token_if_needed(`
    trl/experimental/orpo/orpo_trainer.py:528 `ORPOTrainer.tokenize_row`: `add_eos_token_if_needed(`
    trl/experimental/cpo/cpo_trainer.py:546 `CPOTrainer.tokenize_row`: `add_eos_token_if_needed(`
"""

from typing import Any

from posttrain.runtime.chat_prompts import TOOLS
from posttrain.runtime.prompt_tokenization import common_prefix, tokenize_starts
from posttrain.spec.messages import parse_tools

_NO_LABEL = -100


def pair_tokenizing_trainer(base: Any, *, rendered: bool) -> Any:
    """A subclass of a trainer that tokenizes pairs with the special tokens that other stages use.

    `rendered` says that the chat template renders the rows: their text contains all special tokens.
    """

    class PairTokenizingTrainer(base):
        def tokenize_row(self, feature: Any, model: Any = None) -> dict[str, list[int]]:
            tokenizer, prompt = self.processing_class, feature["prompt"]
            texts = [prompt, prompt + feature["chosen"], prompt + feature["rejected"]]
            prompt_ids, *answered = tokenize_starts(texts, tokenizer, special=not rendered)
            shared = min(common_prefix(prompt_ids, ids) for ids in answered)
            row = _with_mask("prompt_", prompt_ids[:shared])
            for side, whole in zip(("chosen", "rejected"), answered, strict=True):
                ended = rendered or whole[-1:] == [tokenizer.eos_token_id]
                ids = (whole if ended else [*whole, tokenizer.eos_token_id])[: max(shared, self.max_length)]
                row |= _with_mask(f"{side}_", ids)
                row[f"{side}_labels"] = [_NO_LABEL] * shared + ids[shared:]
            return row

    return PairTokenizingTrainer


def render_pairs(data: Any, tokenizer: Any) -> Any:
    """The text of pairs with tools. Pairs without tools are left to the trainer."""
    from datasets import Dataset
    from trl.data_utils import apply_chat_template, maybe_extract_prompt

    if TOOLS not in data.column_names:
        return data
    apply: Any = apply_chat_template
    rendered = [
        apply(maybe_extract_prompt(row), tokenizer, tools=parse_tools(row[TOOLS])) for row in data.to_list()
    ]
    return Dataset.from_dict(
        {name: [row[name] for row in rendered] for name in ("prompt", "chosen", "rejected")}
    )


def _with_mask(prefix: str, ids: list[int]) -> dict[str, list[int]]:
    return {f"{prefix}input_ids": ids, f"{prefix}attention_mask": [1] * len(ids)}
