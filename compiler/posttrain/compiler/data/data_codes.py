"""The diagnostics about datasets."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code

UNKNOWN_SOURCE = Code(
    "PT0401",
    "unknown data source",
    "error",
    "`from` names the source of the rows: a source with its parameters, such as `files`, `hub` or"
    " `arithmetic`, or the bare name of another dataset or of a generate stage.",
    wrong=minimal_recipe(("{arithmetic:", "{arithmetics:")),
    right=MINIMAL_RECIPE,
)
UNKNOWN_STEP = Code(
    "PT0402",
    "unknown data step",
    "error",
    "A data step is a mapping with one key: the name of the step, with its value.",
    wrong=minimal_recipe(("- split:", "- splits:")),
    right=MINIMAL_RECIPE,
)
BAD_SQL = Code(
    "PT0403",
    "invalid SQL expression",
    "error",
    "`where`, `derive`, `sort` and `join` take SQL expressions over the columns before the step. The"
    " compiler binds each expression against these columns. A value is a single expression without access to"
    " files, the network or random functions.",
    wrong=minimal_recipe(("- split:", "- where: length(anser) <= 3\n      - split:")),
    right=minimal_recipe(("- split:", "- where: length(answer) <= 3\n      - split:")),
)
UNKNOWN_COLUMN = Code(
    "PT0404",
    "unknown column",
    "error",
    "The rows have no column of this name at this step. Check the source and the earlier steps.",
    wrong=minimal_recipe(("- split:", "- select: [prompts, answer]\n      - split:")),
    right=minimal_recipe(("- split:", "- select: [prompt, completion, answer]\n      - split:")),
)
UNKNOWN_PART = Code(
    "PT0405",
    "unknown part of a dataset",
    "error",
    "The step `split` creates the parts of a dataset: the parts that it names, and `train` for the remaining"
    " rows.",
    wrong=minimal_recipe(("data: sums.test", "data: sums.valid")),
    right=MINIMAL_RECIPE,
)
TOO_FEW_ROWS = Code(
    "PT0406",
    "not enough rows",
    "error",
    "The source has fewer rows than the step takes. Take fewer rows, or use a larger source.",
    wrong=minimal_recipe(("test: 100", "test: 500")),
    right=MINIMAL_RECIPE,
)
BAD_STEP = Code(
    "PT0407",
    "invalid value of a data step",
    "error",
    "Each step takes a value of its own form: `split: {test: 200}`, `select: [a, b]`, `rename: {old: new}`,"
    " `sample: 1000`, `derive: {column: expression}`.",
    wrong=minimal_recipe(("split: {test: 100}", "split: 100")),
    right=MINIMAL_RECIPE,
)
MISSING_COLUMN = Code(
    "PT0408",
    "missing column",
    "error",
    "Each method and each reward reads named columns of fixed types. Rename or derive the column in the"
    " steps of the dataset.",
    wrong=minimal_recipe(("- split:", "- rename: {answer: solution}\n      - split:")),
    right=MINIMAL_RECIPE,
)
_SUMS, _HUNDRED = "{arithmetic: {digits: 2, count: 200}}", "test: 100"
_ROW = '{"prompt": "1+1", "completion": "2", "answer": "2"}\n'
UNSUITABLE_ROWS = Code(
    "PT0410",
    "unreadable data file or mismatched columns",
    "error",
    "The compiler reads data files to infer the type of each column, or to check the columns against"
    " `columns`. Parquet files, Zstandard files and large files need `columns`.",
    wrong=minimal_recipe((_SUMS, "{files: cut.jsonl}"), (_HUNDRED, "test: 1")),
    right=minimal_recipe((_SUMS, "{files: rows.jsonl}"), (_HUNDRED, "test: 1")),
    files=(("rows.jsonl", _ROW * 5), ("cut.jsonl", _ROW * 4 + _ROW[:20])),
)
CODES = (
    UNKNOWN_SOURCE,
    UNKNOWN_STEP,
    BAD_SQL,
    UNKNOWN_COLUMN,
    UNKNOWN_PART,
    TOO_FEW_ROWS,
    BAD_STEP,
    MISSING_COLUMN,
    UNSUITABLE_ROWS,
)
