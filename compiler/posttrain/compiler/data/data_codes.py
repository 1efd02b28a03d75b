"""What can be wrong with a dataset."""

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.spec.diagnostic import Code

UNKNOWN_SOURCE = Code(
    "PT0401",
    "an unknown source",
    "error",
    "`from` names where rows come from: one source with its parameters, such as `files`, `hub` or"
    " `arithmetic`, or by its bare name another dataset or a stage that writes rows.",
    wrong=minimal_recipe(("{arithmetic:", "{arithmetics:")),
    right=MINIMAL_RECIPE,
)
UNKNOWN_STEP = Code(
    "PT0402",
    "an unknown data step",
    "error",
    "A data step is a mapping of one key, the step's name, to its value.",
    wrong=minimal_recipe(("- split:", "- splits:")),
    right=MINIMAL_RECIPE,
)
BAD_SQL = Code(
    "PT0403",
    "an expression that cannot be computed",
    "error",
    "`where`, `derive`, `sort` and `join` take SQL expressions over the columns before the step. They"
    " are bound against those columns at compile time. Only a single expression is taken: it can"
    " reach no file, no network and nothing random.",
    wrong=minimal_recipe(("- split:", "- where: length(anser) <= 3\n      - split:")),
    right=minimal_recipe(("- split:", "- where: length(answer) <= 3\n      - split:")),
)
UNKNOWN_COLUMN = Code(
    "PT0404",
    "a column that is not there",
    "error",
    "The rows have no column of this name at this point: check the source, and the steps before.",
    wrong=minimal_recipe(("- split:", "- select: [prompts, answer]\n      - split:")),
    right=minimal_recipe(("- split:", "- select: [prompt, completion, answer]\n      - split:")),
)
UNKNOWN_PART = Code(
    "PT0405",
    "a part that the dataset does not have",
    "error",
    "Parts are made by the step `split`: those that it names, and `train` for the rest.",
    wrong=minimal_recipe(("data: sums.test", "data: sums.valid")),
    right=MINIMAL_RECIPE,
)
TOO_FEW_ROWS = Code(
    "PT0406",
    "more rows asked for than there are",
    "error",
    "The source is known to give fewer rows than a step takes out of it.",
    wrong=minimal_recipe(("test: 100", "test: 500")),
    right=MINIMAL_RECIPE,
)
BAD_STEP = Code(
    "PT0407",
    "a data step with a value that it does not take",
    "error",
    "Each step takes values of its own form: `split: {test: 200}`, `select: [a, b]`,"
    " `rename: {old: new}`, `sample: 1000`, `derive: {column: expression}`.",
    wrong=minimal_recipe(("split: {test: 100}", "split: 100")),
    right=MINIMAL_RECIPE,
)
MISSING_COLUMN = Code(
    "PT0408",
    "a stage that reads a column which the data does not have",
    "error",
    "Each method and each reward reads named columns of a type. Rename or derive them in the dataset's"
    " steps.",
    wrong=minimal_recipe(("- split:", "- rename: {answer: solution}\n      - split:")),
    right=MINIMAL_RECIPE,
)
_SUMS, _HUNDRED = "{arithmetic: {digits: 2, count: 200}}", "test: 100"
_ROW = '{"prompt": "1+1", "completion": "2", "answer": "2"}\n'
UNSUITABLE_ROWS = Code(
    "PT0410",
    "a file whose rows are not as the recipe has them",
    "error",
    "Files of rows are read when the recipe is compiled: their columns are told from the content, or held"
    " to those that `columns` declares. Parquet, Zstandard and large files need `columns`.",
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
