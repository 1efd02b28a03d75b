"""A reward function for TRL: whether the final answer of a completion equals the reference in a column."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posttrain.grading.extraction import ExtractionRules, extract
from posttrain.grading.grader import grade_many
from posttrain.grading.options import Options, Verdict

Completion = str | Sequence[Mapping[str, Any]]
LogExtra = Callable[[str, list[Any]], None]
NO_ANSWER = Verdict(False, "no final answer in the completion", "text")
NO_REFERENCE = Verdict(None, "the row has no reference answer", "text")


@dataclass(frozen=True, slots=True)
class AccuracyReward:
    """A reward function for `reward_funcs` of TRL's trainers.

    column: the column of the dataset with the reference answers.
    correct, wrong: the rewards of a correct and a wrong answer. A completion without an answer is wrong.
    undecided: the reward of an answer that cannot be graded. If it is None, TRL skips the row.
    extraction: how to find the answer in a completion.
    options: how strict the comparison is.
    name: the name in TRL's logs.
    """

    column: str = "solution"
    correct: float = 1.0
    wrong: float = 0.0
    undecided: float | None = None
    extraction: ExtractionRules = field(default_factory=ExtractionRules)
    options: Options = field(default_factory=Options)
    name: str = "accuracy_reward"

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Completion],
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """The reward of each completion. `columns` are those of the dataset, and what else TRL passes."""
        references = self._references(columns, len(completions))
        answers = [extract(completion_text(completion), self.extraction) for completion in completions]
        verdicts = self._grade(answers, references)
        if log_extra is not None:
            log_extra(f"{self.name}/answer", answers)
            log_extra(f"{self.name}/verdict", [str(verdict) for verdict in verdicts])
        rewards = {True: self.correct, False: self.wrong, None: self.undecided}
        return [rewards[verdict.equal] for verdict in verdicts]

    def _references(self, columns: Mapping[str, Any], count: int) -> list[str | None]:
        if self.column not in columns:
            raise ValueError(
                f"{self.name}: the dataset has no column `{self.column}` with the reference answers;"
                f" set AccuracyReward(column=...)"
            )
        references = [reference_text(value) for value in columns[self.column]]
        if len(references) != count:
            raise ValueError(f"{self.name}: {count} completions, but {len(references)} reference answers")
        return references

    def _grade(self, answers: Sequence[str | None], references: Sequence[str | None]) -> list[Verdict]:
        rows = list(zip(answers, references, strict=True))
        complete = [(answer, to) for answer, to in rows if answer is not None and to is not None]
        graded = iter(grade_many(complete, self.options))
        return [
            NO_REFERENCE if to is None else NO_ANSWER if answer is None else next(graded)
            for answer, to in rows
        ]


def completion_text(completion: Completion) -> str:
    """The text of a completion: a string, or the last message of the assistant in a conversation."""
    if isinstance(completion, str):
        return completion
    for message in reversed(completion):
        if message.get("role", "assistant") == "assistant":
            return _content_text(message.get("content"))
    return ""


def _content_text(content: str | Sequence[Mapping[str, Any]] | None) -> str:
    """The text of a message, whose content is a string, a list of parts, or None for a tool call."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.get("text") or "" for part in content if part.get("type") == "text")


def reference_text(value: Any) -> str | None:
    """A reference as text. A column of numbers is as good as one of texts."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return float.__repr__(value)  # the repr of NumPy's float64, a subclass, is not a number
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__repr__(value)
    raise TypeError(f"a reference answer must be a text or a number, not {type(value).__name__}")
