"""The diagnostics about benchmark stages."""

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
    """Return the minimal recipe with a benchmark stage; `declared` goes in front of the stages."""
    return f"{MINIMAL_RECIPE.replace('stages:', f'{declared}stages:')}  quoted: {{benchmark: sft, {stage}}}\n"


UNKNOWN_TASK = Code(
    "PT0685",
    "unknown benchmark task",
    "error",
    "`tasks` names tasks, groups and tags of the pinned lm-eval release, or task files in the folder of the"
    " recipe (`tasks/mine.yaml`). The compiler checks the names against a table of that release. Name each"
    " task once. Some groups change their members at run time, so the table cannot list them: name the"
    " members of such a group.",
    wrong=benchmark_example("tasks: [helaswag]"),
    right=benchmark_example("tasks: [hellaswag]"),
)
BAD_TASK_FILE = Code(
    "PT0686",
    "invalid task file",
    "error",
    "A file under `tasks` holds one task in the format of lm-eval. The compiler finds the files that the"
    " task includes, its data files, and the Python files that `!function` names, and adds their digests to"
    " the key of the stage. These files must be in the folder of the recipe. Paths of data files are"
    " relative to the recipe; the other paths are relative to the task file. List a file that the task does"
    " not name, such as a module that its Python code imports, under `files`. `!function` must name a"
    " function in one of these files, because code from anywhere else is not part of the key.",
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
    "log-likelihoods requested from an endpoint",
    "error",
    "Multiple-choice and perplexity tasks compare the log-likelihoods of given texts. Endpoints generate"
    " text and do not return such log-likelihoods. Run these tasks on models. Many tasks have a variant that"
    " generates its answers and works with endpoints.",
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
    "task that runs unsafe code",
    "error",
    "Some tasks, such as humaneval, run the code that the model generates. lm-eval runs it without a"
    " sandbox, with all permissions of the step. Other tasks download the code of a metric from the hub"
    " (`hf_evaluate`), which is not part of any key. To allow either, set `confirm_run_unsafe_code: true`,"
    " preferably for a stage in a container. The reward op `code_tests` runs programs in a sandbox.",
    wrong=benchmark_example("tasks: [humaneval]"),
    right=benchmark_example("tasks: [humaneval], confirm_run_unsafe_code: true"),
)
CODES = (UNKNOWN_TASK, BAD_TASK_FILE, NEEDS_LOGLIKELIHOOD, UNSAFE_CODE)
