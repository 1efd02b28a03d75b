"""Reads the inputs of `recipe diff`: a recipe, a plan file, or a run."""

from dataclasses import dataclass
from pathlib import Path

from posttrain.cli.compile import compile_request, recipe_file
from posttrain.cli.diagnostics_output import compile_or_exit
from posttrain.cli.home_option import find_run, unknown_names_as_usage_errors
from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.cli.run_argument import FoundRun, run_folder
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.runtime.inspection.run_lookup import read_plan
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan, plan_from_json


@dataclass(frozen=True, kw_only=True)
class DiffInput:
    """One side of a comparison. For a recipe, `request` holds its text, to locate changes; for a run, `run`
    holds its folder, to compare metrics."""

    plan: Plan
    request: CompileRequest | None = None
    # The run that the plan is from.
    run: FoundRun | None = None


def read_diff_input(
    argument: str, home: Home, settings: tuple[str, ...], profiles: tuple[str, ...]
) -> DiffInput:
    """Read what an argument names; --set and --profile apply to recipes only."""
    path = Path(argument)
    if "://" in argument:
        return _from_recipe(recipe_file(argument), settings, profiles)
    if (path.is_dir() and (path / "recipe.yaml").is_file()) or path.suffix in (".yaml", ".yml"):
        return _from_recipe(recipe_file(argument), settings, profiles)
    if settings or profiles:
        raise InvalidUsage(f"--set and --profile apply to recipes only; {argument} is not a recipe")
    if path.is_file():
        return DiffInput(plan=_read_plan(path))
    if path.is_dir() and (path / "plan.json").is_file():
        return DiffInput(plan=_read_plan(path / "plan.json"), run=run_folder(argument))
    if path.exists():
        raise InvalidUsage(f"the folder {argument} holds neither recipe.yaml nor plan.json")
    with unknown_names_as_usage_errors():
        run = find_run(home, argument)
        return DiffInput(plan=read_plan(run), run=(home, run))


def _from_recipe(file: Path, settings: tuple[str, ...], profiles: tuple[str, ...]) -> DiffInput:
    plan = compile_or_exit(file, settings, profiles).plan
    assert plan is not None, "a recipe that compiles has a plan"
    return DiffInput(plan=plan, request=compile_request(file, settings, profiles))


def _read_plan(path: Path) -> Plan:
    try:
        return plan_from_json(path.read_bytes())
    except OSError as error:
        raise InvalidUsage(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidUsage(
            f"{path} is not a plan of this release ({error}); create one with `recipe plan --format json`"
        ) from None
