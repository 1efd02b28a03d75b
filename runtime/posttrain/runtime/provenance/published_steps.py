"""The steps of a statement, to compare them with other executions of the same steps."""

from typing import Any, cast

from posttrain.runtime.provenance.provenance_error import ProvenanceError
from posttrain.runtime.provenance.step_provenance import StepRecord
from posttrain.spec.document_json import DocumentError
from posttrain.spec.provenance_statement import Dependency, Statement, contents_digest

_PREFIX = "step "


def published_steps(statement: Statement, files: "dict[str, str]") -> dict[str, StepRecord]:
    """The steps by id: the one that made the product with these files, and those before it."""
    definition, details = statement.predicate.build_definition, statement.predicate.run_details
    found = {
        one.name.removeprefix(_PREFIX): _dependency_record(one)
        for one in definition.resolved_dependencies
        if one.name.startswith(_PREFIX)
    }
    id, derived = definition.external_parameters.step, definition.internal_parameters
    if id is None or derived is None:
        raise ProvenanceError("the statement is about a recipe, not about a product")
    found[id] = StepRecord(
        id=id,
        key=derived.key,
        contents=contents_digest(files),
        launch=details.posttrain_launch,
        hardware=details.posttrain_hardware,
        files=files,
    )
    return found


def file_subjects(statement: Statement, artifact: str | None) -> dict[str, str]:
    """The files of the product with their sha256. `artifact` is the digest of the artifact among the
    subjects."""
    return {
        one.name: digest
        for one in statement.subject
        if (digest := one.digest.get("sha256")) is not None and f"sha256:{digest}" != artifact
    }


def _dependency_record(dependency: Dependency) -> StepRecord:
    from posttrain.spec.document_reader import document_from_dict
    from posttrain.spec.product_manifest import LaunchRecord

    notes = dependency.annotations or {}
    hardware = notes.get("hardware")
    try:
        launch = document_from_dict(LaunchRecord, cast(dict[str, Any], notes.get("launch")))
    except (DocumentError, TypeError):
        launch = None
    return StepRecord(
        id=dependency.name.removeprefix(_PREFIX),
        key=str(notes.get("key")),
        contents=(dependency.digest or {}).get("sha256"),
        launch=launch,
        hardware=cast(dict[str, str], hardware) if isinstance(hardware, dict) else None,
    )
