"""Small data sets with the files, configurations, splits and columns that their hub repositories publish."""

import io
from collections.abc import Callable, Mapping
from typing import Any

Row = dict[str, Any]
_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jule")
_THINGS = ("apples", "ropes", "lamps", "nets", "stones", "shells", "coins", "bells")


def _numbers(number: int) -> tuple[int, int]:
    return 2 + number % 17, 3 + number * 7 % 23


def _problem(number: int) -> str:
    first, second = _numbers(number)
    name, thing = _NAMES[number % 10], _THINGS[number % 8]
    return f"{name} has {first} boxes with {second} {thing} each and finds {number} more. How many {thing}?"


def _answer(number: int) -> str:
    first, second = _numbers(number)
    return str(first * second + number)


def _gsm8k(number: int) -> Row:
    answer = _answer(number)
    return {
        "question": _problem(number),
        "answer": f"That makes <<{answer}={answer}>>{answer}.\n#### {answer}",
    }


def _open_math_reasoning(number: int) -> Row:
    return {
        # A third of the published answers are no numbers.
        "expected_answer": _answer(number) if number % 3 else "\\frac{x}{2}",
        "problem_type": "has_answer_extracted",
        "problem_source": "aops_c4_high_school_math",
        "generation_model": "DeepSeek-R1",
        "pass_rate_72b_tir": "0.96875",
        "problem": _problem(number),
        "generated_solution": f"<think>\nOkay. {'Hmm. ' * (number % 9)}\n</think>It is {_answer(number)}.",
        "inference_mode": "cot",
    }


def _dapo_math(number: int) -> Row:
    return {
        "prompt": _problem(number),
        "solution": _answer(number),
        "data_source": "math_dapo",
        "source_prompt": [{"content": _problem(number), "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": _answer(number), "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": str(number)},
    }


def _open_r1_math(number: int) -> Row:
    correct = [number % 4 != 0, True]
    trace = f"<think>\nLet me count. {'Wait. ' * (number % 7)}\n</think>\n\n\\boxed{{{_answer(number)}}}"
    return {
        "problem": _problem(number),
        "solution": f"The answer is $\\boxed{{{_answer(number)}}}$.",
        "answer": _answer(number),
        "problem_type": "Algebra",
        "question_type": "math-word-problem",
        "source": "olympiads",
        "uuid": f"{number:08d}",
        "is_reasoning_complete": [True, number % 5 != 0],
        "generations": [trace, trace],
        "correctness_math_verify": correct,
        "correctness_llama": None,
        "finish_reasons": None,
        "correctness_count": sum(correct),
        "messages": [{"content": _problem(number), "role": "user"}, {"content": trace, "role": "assistant"}],
    }


def _deepscaler(number: int) -> Row:
    return {"problem": _problem(number), "answer": _answer(number), "solution": ""}


def _math_500(number: int) -> Row:
    return {
        "problem": f"Compute $\\frac{{{number}}}{{7}} + {number}$.",
        "solution": "Add both.",
        "answer": f"\\frac{{{number * 8}}}{{7}}",
        "subject": ("Algebra", "Geometry", "Prealgebra")[number % 3],
        "level": 1 + number % 5,
        "unique_id": f"test/algebra/{number}.json",
    }


def _orca_pairs(number: int) -> Row:
    good, bad = (
        f"{_NAMES[number % 10]} finds {number} {_THINGS[number % 8]}.",
        f"{number} things, as an AI model.",
    )
    return {
        "system": "You are an AI assistant.",
        "input": f"Describe what happens in scene {number} of the book about {_THINGS[number % 8]}.",
        "chosen": good,
        "rejected": good if number % 11 == 0 else bad,
        "generations": [good, bad],
        "order": ["chosen", "rejected"],
        "labelling_model": "gpt-4-1106-preview",
        "rating": [9.0, 4.0],
        "rationale": "The first is better.",
        "status": ("unchanged", "swapped", "tie")[number % 3],
        "chosen_score": 9.0,
        "in_gsm8k_train": False,
    }


def _arc_easy(number: int) -> Row:
    texts = [_answer(number), "none", "seven", "all"]
    choices = {"text": texts, "label": ["A", "B", "C", "D"]}
    return {"id": f"Mercury_{number}", "question": _problem(number), "choices": choices, "answerKey": "A"}


def _hellaswag(number: int) -> Row:
    return {
        "ind": number,
        "activity_label": "Sailing",
        "ctx_a": _problem(number),
        "ctx_b": "they",
        "ctx": f"{_problem(number)} they",
        "endings": ["sail on.", "sink.", "sing.", "sleep."],
        "source_id": f"activitynet~v_{number}",
        "split": "val",
        "split_type": "indomain",
        "label": str(number % 4),
    }


# By repository: the configuration, and the rows of each split.
_PUBLISHED: Mapping[str, tuple[str, Callable[[int], Row], Mapping[str, range]]] = {
    "openai/gsm8k": ("main", _gsm8k, {"train": range(60), "test": range(60, 80)}),
    "unsloth/OpenMathReasoning-mini": ("default", _open_math_reasoning, {"cot": range(60)}),
    "open-r1/DAPO-Math-17k-Processed": ("en", _dapo_math, {"train": range(100)}),
    "open-r1/OpenR1-Math-220k": ("default", _open_r1_math, {"train": range(60)}),
    "agentica-org/DeepScaleR-Preview-Dataset": ("default", _deepscaler, {"train": range(60)}),
    "HuggingFaceH4/MATH-500": ("default", _math_500, {"test": range(20)}),
    "argilla/distilabel-intel-orca-dpo-pairs": ("default", _orca_pairs, {"train": range(200)}),
    "allenai/ai2_arc": ("ARC-Easy", _arc_easy, dict.fromkeys(("train", "validation", "test"), range(6))),
    "Rowan/hellaswag": ("default", _hellaswag, dict.fromkeys(("train", "validation"), range(6))),
}


def published_files(repository: str) -> dict[str, bytes]:
    """The files of a repository: a README with the configuration, and a Parquet file for each split."""
    import pyarrow
    import pyarrow.parquet as parquet

    config, make, splits = _PUBLISHED[repository]
    files: dict[str, bytes] = {}
    head = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n"
    for split, numbers in splits.items():
        path = f"{config}/{split}-00000-of-00001.parquet"
        head += f"  - split: {split}\n    path: {path}\n"
        out = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist([make(number) for number in numbers]), out)
        files[path] = out.getvalue()
    return {**files, "README.md": f"{head}---\n".encode()}


PUBLISHED = tuple(_PUBLISHED)
