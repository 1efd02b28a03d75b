"""Reads the completions without a card on the page in a short form, so that the search covers them."""

from typing import Any

from posttrain.runtime.report.redaction import redact
from posttrain.runtime.report.run_record import SearchRow
from posttrain.spec.sql_types import quote_identifier

# Of one eval. `search_results.py` limits the characters of the page.
MAX_SEARCH_ROWS = 5000
MAX_SEARCH_TEXT = 240
# Secrets are replaced before the texts are cut: a secret that is cut in the middle would not be found.
_READ_TEXT = 4000
_NOT_DATA = ("model", "prompt", "completion", "item", "tokens", "finish", "transcript", "file_row_number")


def search_rows(connection: Any, secrets: tuple[str, ...]) -> tuple[SearchRow, ...]:
    """The rows of the view `now` that are in the table `ranked` and not in `chosen`: failures first."""
    columns = {name: kind for name, kind, *_ in connection.execute("DESCRIBE now").fetchall()}
    data = [name for name in columns if name not in _NOT_DATA and ":" not in name]
    fields = ", ".join(f"{quote_identifier(name)} := now.{quote_identifier(name)}" for name in data)
    reference = f"to_json(struct_pack({fields}))::VARCHAR" if data else "''"
    texts = [_text(columns, "prompt"), _text(columns, "completion"), reference]
    shown = ", ".join(f"coalesce(left({text}, {_READ_TEXT}), '')" for text in texts)
    found = connection.execute(
        f"SELECT r.item, r.model, r.outcome, {shown} FROM ranked AS r JOIN now ON now.file_row_number = r.row"
        " WHERE r.row NOT IN (SELECT row FROM chosen) ORDER BY r.place, r.row LIMIT $most",
        {"most": MAX_SEARCH_ROWS},
    )
    rows: list[SearchRow] = []
    while batch := found.fetchmany(500):
        rows += [_search_row(row, secrets) for row in batch]
    return tuple(rows)


def _text(columns: dict[str, str], name: str) -> str:
    return f"now.{name}" if columns[name] == "VARCHAR" else f"to_json(now.{name})::VARCHAR"


def _search_row(row: tuple[Any, ...], secrets: tuple[str, ...]) -> SearchRow:
    item, model, outcome, *texts = row
    prompt, completion, reference = (redact(text, secrets)[:MAX_SEARCH_TEXT] for text in texts)
    return SearchRow(
        item=item,
        model=redact(str(model), secrets),
        outcome=outcome,
        prompt=prompt,
        completion=completion,
        reference=reference,
    )
