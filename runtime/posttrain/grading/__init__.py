"""Grades mathematical answers: decides whether a candidate equals a reference.

`grade` compares two answers, `extract` finds the final answer of a completion, and `AccuracyReward` is a
reward function for TRL. `docs/grading.md` documents them. Comparisons are exact where possible, and safe on
any text that a model generates: no text is ever evaluated. It is tokenized, parsed into the tree of
`expression_tree.py`, and compared.

The package imports no other package of this project, and sympy and mpmath only in its worker processes.
"""

from posttrain.grading.accuracy_reward import AccuracyReward
from posttrain.grading.extraction import ExtractionRules, extract
from posttrain.grading.grader import grade, grade_many
from posttrain.grading.options import Options, Verdict

__all__ = ["AccuracyReward", "ExtractionRules", "Options", "Verdict", "extract", "grade", "grade_many"]
