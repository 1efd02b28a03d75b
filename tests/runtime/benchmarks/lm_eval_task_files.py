"""Custom lm-eval tasks in files next to a recipe: additions, with multiple choice and generated answers."""

import json

_COMMON = """\
dataset_path: json
dataset_kwargs: {data_files: {train: train.jsonl, test: test.jsonl}}
training_split: train
fewshot_split: train
test_split: test
doc_to_text: "{{question}}"
target_delimiter: ""
metadata: {version: 1.5}
"""
_CHOICE = """\
include: common.yaml
task: sums
output_type: multiple_choice
doc_to_choice: choices
doc_to_target: "{{label}}"
"""
_WRITTEN = """\
include: common.yaml
task: written
output_type: generate_until
doc_to_target: !function grade.target
generation_kwargs: {until: ["\\n", "+"], max_gen_toks: 5, do_sample: false}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""
_ROLLING = """\
dataset_path: json
dataset_kwargs: {data_files: {test: test.jsonl}}
test_split: test
task: likely
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{question}}"
metadata: {version: 1.0}
"""
_GRADE = """\
def target(doc):
    return doc["choices"][doc["label"]]
"""


def _rows(sums: list[tuple[int, int]]) -> str:
    rows = [
        {
            "question": f"{a}+{b}=",
            "choices": [str(a + b), str((a + b + 3) % 10)] if (a + b) % 2 else [str(a + b + 5), str(a + b)],
            "label": 0 if (a + b) % 2 else 1,
        }
        for a, b in sums
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


TASK_FILES = {
    "common.yaml": _COMMON,
    "sums.yaml": _CHOICE,
    "written.yaml": _WRITTEN,
    "likely.yaml": _ROLLING,
    "grade.py": _GRADE,
    "train.jsonl": _rows([(a, 9 - a) for a in range(8)]),
    "test.jsonl": _rows([(a, b) for a in range(1, 6) for b in range(1, 6)]),
}
