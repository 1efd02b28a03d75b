"""The columns of the rows that generate stages produce."""

from posttrain.spec.artifact_stages import Generate
from posttrain.spec.column_types import Columns

_COMPLETION: Columns = {"completion": "text", "finish": "text"}
_PAIR: Columns = {
    "chosen": "text",
    "rejected": "text",
    "chosen_score": "number",
    "rejected_score": "number",
}
_DIALOGUE: Columns = {"messages": "messages", "turns": "integer", "finish": "text"}


def generated_columns(stage: Generate, below: Columns) -> Columns:
    """Return the input columns together with the generated columns."""
    if stage.dialogue is not None:
        added = _DIALOGUE
    elif stage.keep == "pair":
        added = _PAIR
    else:
        added = {**_COMPLETION, **({"score": "number"} if stage.reward else {})}
    return {**below, **added}
