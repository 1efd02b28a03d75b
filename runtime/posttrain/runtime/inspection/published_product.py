"""Finds the product of a stage that a user publishes, and the recipe that made it."""

from pathlib import Path

from posttrain.runtime.errors import StepError
from posttrain.runtime.inspection.run_lookup import UnknownName, check_step
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.integrity import DAMAGE_ADVICE, INCOMPLETE, record_problem
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import find_step_key
from posttrain.spec.document_json import DocumentError
from posttrain.spec.record import record


@record(kw_only=True)
class PublishedProduct:
    # The folder of the run.
    run: Path
    product: Product
    # The recipe of the run, if its file still exists.
    recipe: Path | None


def find_published(home: Home, run: Path, stage: str) -> PublishedProduct:
    """The product of a stage of a run. Raises `UnknownName`, or StepError if the product is damaged."""
    check_step(run, stage)
    key = find_step_key(run, stage)
    try:
        product = None if key is None or not (home.store.root / key).exists() else home.store.read(key)
    except DocumentError as error:
        raise StepError(f"the product of `{stage}` is damaged: {error}", error.advice) from None
    if product is None:
        raise UnknownName(f"`{stage}` of the run {run.name} has not finished; see `recipe status`")
    if not product.is_complete:
        raise _damaged(stage, INCOMPLETE)
    problem = record_problem(product)  # the upload finds damage of the other files
    if problem is not None:
        raise _damaged(stage, problem)
    return PublishedProduct(run=run, product=product, recipe=_recipe(run))


def _damaged(stage: str, reason: str) -> StepError:
    return StepError(f"the product of `{stage}` is damaged: {reason}", DAMAGE_ADVICE)


def _recipe(run: Path) -> Path | None:
    journal = Journal(run / "journal.sqlite")
    try:
        found = journal.get("recipe")
    finally:
        journal.close()
    return Path(found) if isinstance(found, str) and Path(found).is_file() else None
