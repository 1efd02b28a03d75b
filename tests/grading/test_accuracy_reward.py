"""The reward function: alone, and in TRL's GRPOTrainer with a model from scratch."""

import pickle
from typing import Any

import pytest
from tests.grading.test_documentation import code_blocks

from posttrain.grading import AccuracyReward, ExtractionRules, Options

WHOLE = ExtractionRules(methods=("whole",))


def rewards_of(completions: list[Any], references: list[Any], **settings: Any) -> list[float | None]:
    reward = AccuracyReward(column="answer", **settings)
    return reward(prompts=["?"] * len(completions), completions=completions, answer=references)


def test_plain_and_conversational_completions_are_graded_alike():
    texts = [r"\boxed{5}", "The answer is 6.", "none"]
    chats = [[{"role": "assistant", "content": text}] for text in texts]
    assert rewards_of(texts, ["5"] * 3) == rewards_of(chats, ["5"] * 3) == [1.0, 0.0, 0.0]


def test_the_last_message_of_the_assistant_counts():
    turns = [
        {"role": "assistant", "content": r"\boxed{4}"},
        {"role": "tool", "content": r"\boxed{6}"},
        {"role": "assistant", "content": [{"type": "text", "text": r"\boxed{5}"}]},
        {"role": "tool", "content": r"\boxed{6}"},
    ]
    assert rewards_of([turns], ["5"]) == [1.0]
    assert rewards_of([turns[1:2], [{"role": "assistant", "content": None}]], ["6", "6"]) == [0.0, 0.0]


def test_references_may_be_numbers_or_absent():
    completions = ["#### 5", "#### 0.5", "#### 5"]
    assert rewards_of(completions, [5, 0.5, None]) == [1.0, 1.0, None]
    with pytest.raises(TypeError, match="not list"):
        rewards_of(["#### 5"], [["5"]])


def test_references_may_be_numbers_of_numpy():
    import numpy

    assert rewards_of(["#### 0.5", "#### 1e300"], [numpy.float64(0.5), numpy.float64(1e300)]) == [1.0, 1.0]


def test_the_values_and_the_settings_apply():
    rewards = rewards_of(
        ["2/4", "1/2", "2", "2"],
        ["1/2", "1/2", "1/2", None],
        correct=2.0,
        wrong=-1.0,
        undecided=0.5,
        extraction=WHOLE,
        options=Options(require_simplified=True),
    )
    assert rewards == [-1.0, 2.0, -1.0, 0.5]


def test_a_missing_column_names_the_setting():
    with pytest.raises(ValueError, match=r"no column `solution`.*set AccuracyReward\(column=\.\.\.\)"):
        AccuracyReward()(prompts=["?"], completions=["5"], answer=["5"])


def test_it_logs_the_answers_and_the_verdicts():
    logged: dict[str, list[Any]] = {}
    AccuracyReward(name="math")(["?"] * 2, ["#### 5", "?"], log_extra=logged.__setitem__, solution=["5", "5"])
    assert logged == {
        "math/answer": ["5", None],
        "math/verdict": ["correct: the same text", "wrong: no final answer in the completion"],
    }


def test_it_can_be_pickled():
    reward = AccuracyReward(column="answer", name="math")
    assert pickle.loads(pickle.dumps(reward)) == reward
    assert reward.__name__ == "math"


DIGITS = 4


def make_tokenizer() -> Any:
    """One token for each digit, and a chat template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", *(str(digit) for digit in range(DIGITS)), "?"]
    inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    return tokenizer


def make_model() -> Any:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=DIGITS + 3,
            hidden_size=32,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=0,
            eos_token_id=1,
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("conversational", [False, True], ids=["plain", "conversational"])
def test_trl_trains_with_the_example_of_the_page(conversational, tmp_path):
    """The code on the page, with TRL's own trainer: a model learns to print the digit in the column."""
    from datasets import Dataset
    from trl import GRPOConfig

    prompt = [{"role": "user", "content": "?"}] if conversational else "?"
    dataset = Dataset.from_list([{"prompt": prompt, "answer": "2"}] * 64)
    config = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=16,
        num_generations=16,
        max_completion_length=1,
        max_steps=25,
        learning_rate=2e-2,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        seed=1,
    )
    page_code = next(block for block in code_blocks() if "GRPOTrainer(" in block)
    page_code = page_code.replace('column="answer"', 'column="answer", extraction=digits')
    names = {"model": make_model(), "tokenizer": make_tokenizer(), "dataset": dataset, "config": config}
    exec(page_code, {**names, "digits": WHOLE}, names)
    log = names["trainer"].state.log_history
    means = [row["rewards/accuracy_reward/mean"] for row in log if "rewards/accuracy_reward/mean" in row]
    assert len(means) == 25
    assert sum(means[:3]) / 3 < 0.5
    assert sum(means[-3:]) / 3 > 0.8
