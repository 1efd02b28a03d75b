"""Adds the completions of finished evals to the record of a run."""

from collections.abc import Sequence
from dataclasses import replace

from posttrain.runtime.report.completion_rows import CompletionFile, read_completions
from posttrain.runtime.report.number_format import mapping_or_empty
from posttrain.runtime.report.run_record import RunRecord, StepRecord
from posttrain.runtime.report.sample_correctness import CorrectnessRule, correctness_rules
from posttrain.spec.plan import Step


def add_completions(run: RunRecord, secrets: tuple[str, ...]) -> RunRecord:
    """The run with the completions of its evals. Those of a damaged file are missing, with a message."""
    rules = correctness_rules(run)
    files = {
        record.id: found for record in run.steps if (found := _completion_file(record, rules[record.id]))
    }
    if not files:
        return run
    import duckdb

    steps: list[StepRecord] = []
    read_errors = list(run.read_errors)
    for record in run.steps:
        found = None
        if record.id in files:
            earlier = _earlier_eval(record.step, [one.step for one in steps if one.id in files])
            try:
                found = read_completions(files[record.id], files.get(earlier or ""), secrets)
            except (OSError, duckdb.Error):
                read_errors.append(f"The completions of {record.id} are not readable.")
        steps.append(replace(record, completions=found) if found else record)
    return replace(run, steps=tuple(steps), read_errors=tuple(read_errors))


def _completion_file(record: StepRecord, rule: CorrectnessRule | None) -> CompletionFile | None:
    path = record.folder / "completions.parquet" if record.folder is not None else None
    if record.step.kind != "eval" or path is None or not path.is_file():
        return None
    episodes = bool(mapping_or_empty(record.step.params).get("environment"))
    return CompletionFile(stage=record.id, path=path, rule=rule, episodes=episodes)


def _earlier_eval(step: Step, before: Sequence[Step]) -> str | None:
    """The last eval before a step on the same rows: of its leg, or of no leg."""
    same = [
        one
        for one in before
        if one.inputs.get("data") == step.inputs.get("data") and one.leg in ("", step.leg)
    ]
    return same[-1].id if same else None
