"""What can be wrong with a benchmark."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE
from posttrain.spec.diagnostic import Code

_CUSTOM_TASK = """\
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: choices
doc_to_target: answer
metadata: {version: 1.0}
"""
_ROW = '{"question": "1+1=", "choices": ["2", "3"], "answer": 0}\n'


def benchmark_example(stage: str, declared: str = "") -> str:
    """The small recipe with a benchmark, and with more declarations before its stages."""
    return f"{MINIMAL_RECIPE.replace('stages:', f'{declared}stages:')}  quoted: {{benchmark: sft, {stage}}}\n"


UNKNOWN_TASK = Code(
    "PT0685",
    "a task that cannot be put to a model",
    "error",
    "`tasks` names tasks, groups and tags of the lm-eval release that posttrain is pinned to, or files beside"
    " the recipe that hold a task of your own (`tasks/mine.yaml`). The names are checked against a table of"
    " the release. A task is put once. A group that changes its members has no table of them here: name the"
    " members.",
    wrong=benchmark_example("tasks: [helaswag]"),
    right=benchmark_example("tasks: [hellaswag]"),
)
BAD_TASK_FILE = Code(
    "PT0686",
    "a task file that cannot be used",
    "error",
    "A file under `tasks` holds one task in lm-eval's form. Files that it includes, data files, and Python"
    " that `!function` names are found in it and become part of the stage's key; they lie beside the recipe."
    " Data files are named relative to the recipe's folder, the others relative to the task file. What cannot"
    " be found in the text of the task, such as a module that its Python imports, is named under `files`."
    " `!function` names a function of a file: anything else would run code that no key holds.",
    wrong=benchmark_example("tasks: [wrong.yaml]"),
    right=benchmark_example("tasks: [sums.yaml]"),
    files=(
        ("sums.yaml", _CUSTOM_TASK),
        ("sums.jsonl", _ROW),
        ("wrong.yaml", _CUSTOM_TASK + "process_results: !function os.system\n"),
    ),
)
NEEDS_LOGLIKELIHOOD = Code(
    "PT0687",
    "a task that asks an endpoint for likelihoods",
    "error",
    "A task of multiple choice, or one that measures a perplexity, compares how likely the model holds given"
    " texts. Endpoints write text and tell no likelihood of a given one. Put such tasks to models; many have"
    " a variant that lets the model write its answer.",
    wrong=benchmark_example(
        "tasks: [hellaswag]",
        "endpoints:\n  big: {provider: vllm, base_url: http://localhost:8000, model: m}\n",
    ).replace("benchmark: sft", "benchmark: big"),
    right=benchmark_example(
        "tasks: [gsm8k]", "endpoints:\n  big: {provider: vllm, base_url: http://localhost:8000, model: m}\n"
    ).replace("benchmark: sft", "benchmark: big"),
)
UNSAFE_CODE = Code(
    "PT0688",
    "a task that runs code that is not at hand",
    "error",
    "Tasks such as humaneval run what the model writes, as lm-eval does: outside any sandbox, with all that"
    " the step may do. Others fetch the code of a metric from the hub (`hf_evaluate`), which no key holds."
    " Either has to be said: `confirm_run_unsafe_code: true`, best in a container. A reward's `code_tests`"
    " runs programs in a sandbox.",
    wrong=benchmark_example("tasks: [humaneval]"),
    right=benchmark_example("tasks: [humaneval], confirm_run_unsafe_code: true"),
)
CODES = (UNKNOWN_TASK, BAD_TASK_FILE, NEEDS_LOGLIKELIHOOD, UNSAFE_CODE)
