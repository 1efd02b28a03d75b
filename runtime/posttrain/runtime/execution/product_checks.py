"""Finds products in the store that a run cannot use: of another release, incomplete or damaged."""

from posttrain.runtime.errors import StepError
from posttrain.runtime.execution.step_progress import ACTIVE_STATES, StepDependencies
from posttrain.runtime.store.integrity import INCOMPLETE, Damage, IntegrityChecker
from posttrain.runtime.store.model_lineage import lineage_damage
from posttrain.runtime.store.products import Product, Store
from posttrain.spec.document_json import NewerFormatError
from posttrain.spec.plan import Step

_WITH_MODEL_CARD = ("export",)  # the kinds of steps that read the records of the steps before a model


class ProductChecks:
    def __init__(self, store: Store, dependencies: StepDependencies) -> None:
        self._store = store
        self._dependencies = dependencies
        self._integrity = IntegrityChecker(store.find)

    def damage_of_unused(self, key: str) -> str | None:
        """Why the run does not use the product of a key, if there is one. The rebuilt product replaces it.

        Raises StepError for the product of a newer release, which stays.
        """
        error = self._store.manifest_error(key)
        if isinstance(error, NewerFormatError):
            raise StepError(str(error), error.advice)
        if error is not None:
            return str(error)
        found = self._store.find_manifest(key)
        return INCOMPLETE if found is not None and not found.is_complete else None

    def input_damage(self, step: Step, product: Product) -> Damage | None:
        """The damage of a product that is an input of a step, or of one that the step reads with it."""
        damage = self._integrity.check(product)
        if damage is None and step.kind in _WITH_MODEL_CARD:
            damage = lineage_damage(product, self._store.find_manifest, self.is_under_way)
        return damage

    def is_under_way(self, key: str) -> bool:
        """Whether the run makes, or will make, the product of a key."""
        progress = self._dependencies.step_for_key(key)
        return progress is not None and progress.state in ("waiting", *ACTIVE_STATES)
