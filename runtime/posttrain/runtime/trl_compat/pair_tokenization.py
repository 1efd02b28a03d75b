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

from dataclasses import dataclass
from typing import Any

from posttrain.runtime.chat_prompts import TOOLS
from posttrain.runtime.prompt_tokenization import common_prefix, tokenize_starts
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.training_rows.mapped_dataset import map_dataset, token_table
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


@dataclass(frozen=True)
class UntokenizedPairs:
    """Pairs that stand in for the dataset of an experimental trainer until it maps `tokenize_row` over them.

    Its maps before that are one pass here, over batches and in several processes.
    """

    # `PreparedRows`: the rows, what they depend on, and the cache.
    rows: Any
    tokenizer: Any
    tokenizer_key: Any
    stop: StopRequest | None = None

    def map(self, function: Any, **_: Any) -> Any:
        trainer = getattr(function, "__self__", None)
        return self if trainer is None else self._tokenize(trainer)

    def _tokenize(self, trainer: Any) -> Any:
        from datasets import List, Value

        data = self.rows.data
        numbers = List(Value("int32"))
        sides = ("prompt", "chosen", "rejected")
        names = [f"{side}_{column}" for side in sides for column in ("input_ids", "attention_mask")]
        features = dict.fromkeys((*names, "chosen_labels", "rejected_labels"), numbers)

        def convert(start: int, end: int) -> tuple[Any, None]:
            rows = data.select(range(start, end)).to_list()
            encoded = [trainer.tokenize_row(self._rendered(row)) for row in rows]
            return token_table(encoded, features), None

        key = {
            "pairs": [self.rows.key, data.column_names],
            "tokenizer": self.tokenizer_key,
            "max_length": trainer.max_length,
        }
        mapped = map_dataset(self.rows.cache, key, data.data, features, convert, lambda _: {}, self.stop)
        return mapped.data

    def _rendered(self, row: Any) -> Any:
        """The text of a pair."""
        from trl.data_utils import apply_chat_template, maybe_apply_chat_template, maybe_extract_prompt

        row = maybe_extract_prompt(row)
        if TOOLS in row:
            apply: Any = apply_chat_template
            return apply(row, self.tokenizer, tools=parse_tools(row[TOOLS]))
        return maybe_apply_chat_template(row, self.tokenizer)


def _with_mask(prefix: str, ids: list[int]) -> dict[str, list[int]]:
    return {f"{prefix}input_ids": ids, f"{prefix}attention_mask": [1] * len(ids)}
