"""What `recipe diff` compares: a recipe, a plan in a file, or a run, by whatever names it."""

from dataclasses import dataclass
from pathlib import Path

from posttrain.cli.homes import chosen_run
from posttrain.cli.loading import Misuse, recipe_file, request_for
from posttrain.cli.reporting import must_compile
from posttrain.compiler.text.source import Request
from posttrain.runtime.keeping.home import Home
from posttrain.runtime.keeping.runs import plan_of
from posttrain.spec.plan import Plan, from_json


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One side of a comparison. A recipe also has its text, in which places can be named."""

    plan: Plan
    request: Request | None = None


def subject(given: str, home: Home, settings: tuple[str, ...], profiles: tuple[str, ...]) -> Subject:
    """What stands behind an argument; --set and --profile are for recipes alone."""
    path = Path(given)
    if (path.is_dir() and (path / "recipe.yaml").is_file()) or path.suffix in (".yaml", ".yml"):
        return _recipe(recipe_file(given), settings, profiles)
    if settings or profiles:
        raise Misuse(f"--set and --profile change recipes; {given} is none")
    if path.is_file():
        return Subject(plan=_read(path))
    if path.is_dir() and (path / "plan.json").is_file():
        return Subject(plan=_read(path / "plan.json"))
    if path.exists():
        raise Misuse(f"the folder {given} holds neither recipe.yaml nor plan.json")
    return Subject(plan=_of_run(chosen_run(home, given)))


def _recipe(file: Path, settings: tuple[str, ...], profiles: tuple[str, ...]) -> Subject:
    plan = must_compile(file, settings, profiles).plan
    assert plan is not None, "a recipe that compiles has a plan"
    return Subject(plan=plan, request=request_for(file, settings, profiles))


def _read(path: Path) -> Plan:
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Misuse(
            f"{path} is no plan of this release ({error}); `recipe plan --format json` writes one"
        ) from None


def _of_run(run: Path) -> Plan:
    plan = plan_of(run)
    if plan is None:
        raise Misuse(f"the run {run.name} has no plan that can be read")
    return plan
