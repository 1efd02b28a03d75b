"""Checks the declared outputs of a program: the columns and types of rows, and that models load."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.duckdb_files import open_for_duckdb, write_parquet
from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.architectures.unsupported_checkpoints import checkpoint_problem
from posttrain.spec.sql_types import quote_identifier
from posttrain.spec.step_params.artifact_params import OutputOptions, ScriptStepParams

_ROW_FORMATS = ("jsonl", "parquet")
# Settings of a configuration that do not determine the shapes of the weights.
_FREE_SETTINGS = ("_token_id", "_version")


def check_outputs(context: StepContext[ScriptStepParams]) -> None:
    for name, output in context.params.outputs.items():
        context.events.emit("phase", name=f"checking {name}")
        try:
            if output.columns is None:
                _check_model(context, name, output)
            else:
                context.facts[f"{name}.rows"] = _convert_rows(context.out, name, output.columns)
        except StepError as error:
            raise StepError(f"the output `{name}`: {error}", error.advice) from None


def _convert_rows(out: Path, name: str, columns: Mapping[str, str]) -> int:
    """Convert the file of rows to the form of a dataset, and return their number."""
    import duckdb

    from posttrain.runtime.sources.duckdb_reader import read_files

    path = _find_rows(out, name)
    kind = path.suffix[1:]
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    try:
        _check_no_other_columns(connection, path, kind, columns)
        read_files(connection, [path], [kind], dict(columns))
        folder = out / name
        folder.mkdir()
        listed = ", ".join(map(quote_identifier, columns))
        write_parquet(connection, f"SELECT {listed} FROM source", [], folder / "all.parquet")
        (folder / "parts.txt").write_text("all\n", encoding="utf-8")
        path.unlink()
        ((count,),) = connection.execute("SELECT count(*) FROM source").fetchall()
        return int(count)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise StepError(f"cannot read {path.name}: {reason}", "correct what the program writes") from None
    finally:
        connection.close()


def _find_rows(out: Path, name: str) -> Path:
    found = [path for kind in _ROW_FORMATS if (path := out / f"{name}.{kind}").is_file()]
    if len(found) == 1 and not (out / name).exists():
        return found[0]
    if len(found) == 2:
        problem = f"the program wrote both outputs/{name}.jsonl and outputs/{name}.parquet"
    elif found:
        problem = f"the program wrote outputs/{name}, the place of the checked rows"
    else:
        problem = f"the program wrote no outputs/{name}.jsonl or outputs/{name}.parquet"
    raise StepError(problem, "write the rows to exactly one of these files")


def _check_no_other_columns(connection: Any, path: Path, kind: str, columns: Mapping[str, str]) -> None:
    """Raise StepError for a column that the recipe does not declare: it would be lost."""
    query = (
        "DESCRIBE SELECT * FROM read_parquet(?)"
        if kind == "parquet"
        else "SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects(?, format='newline_delimited')"
    )
    with open_for_duckdb([path]) as files:
        names = {str(row[0]) for row in connection.execute(query, files).fetchall()}
    extra = sorted(names - set(columns))
    if extra:
        advice = f"add it to the columns of the output, with its type; declared are {', '.join(columns)}"
        raise StepError(f"the rows have the column `{extra[0]}`, which is not declared", advice)


def _check_model(context: StepContext[ScriptStepParams], name: str, output: OutputOptions) -> None:
    """Check that a folder has a model that loads, with finite weights and a tokenizer."""
    from posttrain.runtime.models.model_loader import load_model, load_tokenizer

    folder = context.out / name
    _check_model_files(folder, name)
    tokenizer = load_tokenizer(folder)
    model = load_model(folder)
    _check_finite(model)
    context.facts[f"{name}.parameters"] = sum(weight.numel() for weight in model.parameters())
    if output.like is not None:
        _check_like(folder, tokenizer, context.inputs[output.like], output.like)


def _check_model_files(folder: Path, name: str) -> None:
    advice = f"save the model with its configuration and tokenizer to the folder outputs/{name}"
    if not folder.is_dir():
        raise StepError(f"the program wrote no folder outputs/{name}", advice)
    config = atomic_io.read_json(folder / "config.json")
    if (folder / "adapter_config.json").exists():
        raise StepError("it is an adapter of PEFT", "merge it into its base model, and save that")
    if not isinstance(config, dict):
        raise StepError("its config.json is missing or corrupt", advice)
    if not any(folder.glob("*.safetensors")):
        raise StepError("it has no safetensors weights", "save the weights as safetensors")
    problem = checkpoint_problem(config)
    if problem is not None:
        raise StepError(f"it {problem.reason}", problem.advice)


def _check_finite(model: Any) -> None:
    import torch

    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise StepError(f"the weight {name} has values that are not finite", "correct the program")


def _check_like(folder: Path, tokenizer: Any, other: Path, role: str) -> None:
    """Compare the architecture, the vocabulary and the chat template with those of an input."""
    from posttrain.runtime.models.model_loader import full_weights_below, load_tokenizer

    advice = f"write `model` instead of {{like: {role}}} for a model of another architecture"
    ours, theirs = (_shape_settings(one) for one in (folder, full_weights_below(other)))
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            values = f"{ours.get(name)} instead of {theirs.get(name)}"
            raise StepError(f"its `{name}` is not that of the input `{role}`: {values}", advice)
    expected = load_tokenizer(other)
    if tokenizer.get_vocab() != expected.get_vocab():
        raise StepError(f"its vocabulary is not that of the input `{role}`", advice)
    if tokenizer.chat_template != expected.chat_template:
        raise StepError(f"its chat template is not that of the input `{role}`", advice)


def _shape_settings(folder: Path) -> dict[str, Any]:
    """The settings of a configuration with its defaults that determine the shapes of the weights."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True).to_dict()
    return {
        name: value
        for name, value in config.items()
        if name == "model_type" or (isinstance(value, int) and not name.endswith(_FREE_SETTINGS))
    }
