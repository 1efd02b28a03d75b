"""Builds the datasets of a recipe from its plan, step by step, and returns their rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG, load_entry
from posttrain.runtime.events import EventWriter
from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.rows_io import dataset_parts, read_rows
from posttrain.runtime.step_context import StepContext
from posttrain.spec.plan import Plan, plan_from_json, plan_to_json


def compile_datasets(datasets: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> CompileResult:
    """Compile a recipe with these datasets and a stage that reads each of them."""
    import io

    inputs = {name: name for name in datasets}
    recipe = {
        "recipe": 1,
        "name": "data",
        "datasets": dict(datasets),
        "stages": {"look": {"script": ["true"], "inputs": inputs}},
    }
    text = io.StringIO()
    YAML(typ="safe").dump(recipe, text)
    source = SourceFile("recipe.yaml", text.getvalue().encode())
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=dict(files or {}).get))


def plan_datasets(datasets: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> Plan:
    result = compile_datasets(datasets, files)
    assert result.plan is not None, result.diagnostics
    return plan_from_json(plan_to_json(result.plan))


class BuiltDatasets:
    """The datasets of a plan, built in a folder."""

    def __init__(
        self, folder: Path, datasets: Mapping[str, Any], files: Mapping[str, bytes] | None = None
    ) -> None:
        self.plan = plan_datasets(datasets, files)
        self.folder = folder
        self._facts: dict[str, dict[str, Any]] = {}
        for name, data in (files or {}).items():
            (folder / "user" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "user" / name).write_bytes(data)
        for step in self.plan.steps:
            if step.kind == "data":
                self._run(step)

    def _run(self, step: Any) -> None:
        out = self.folder / step.id
        out.mkdir(parents=True)
        context = StepContext(
            step=step,
            params=read_step_params(step),
            inputs={role: self.folder / source.step for role, source in step.inputs.items()},
            files={role: self.folder / "user" / file.path for role, file in step.files.items()},
            out=out,
            work=self.folder,
            events=EventWriter(self.folder / f"{step.id}.events"),
        )
        load_entry(step.entry)(context)
        self._facts[step.id] = context.facts

    def rows(self, name: str, part: str | None = None) -> list[dict[str, Any]]:
        return read_rows(self.folder / f"datasets.{name}", part)

    def facts(self, name: str) -> dict[str, Any]:
        """The facts that the step of this dataset records."""
        return self._facts[f"datasets.{name}"]

    def parts(self, name: str) -> list[str]:
        return dataset_parts(self.folder / f"datasets.{name}")

    def columns(self, name: str) -> dict[str, str]:
        """The columns that the compiler infers for this dataset."""
        return dict(self.plan.step(f"datasets.{name}").params["columns"])


def build_dataset(folder: Path, *steps: Any, rows: list[dict[str, Any]], **others: Any) -> BuiltDatasets:
    """Build a dataset `it` from these rows with these steps."""
    return BuiltDatasets(folder, {**others, "it": {"from": {"rows": rows}, "steps": list(steps)}})
