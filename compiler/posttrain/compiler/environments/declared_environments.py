"""Checks the environments that a recipe declares: their types, parameters and files."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.environments.checked_environment import CheckedEnvironment
from posttrain.compiler.environments.environment_codes import UNKNOWN_KIND
from posttrain.compiler.parsing.validation_diagnostics import validate
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath, MappingNode, node_at
from posttrain.compiler.user_files import user_file
from posttrain.spec.declarations import Environment
from posttrain.spec.extension import Environment as Kind
from posttrain.spec.extension import Params
from posttrain.spec.plan import UserFile
from posttrain.spec.suggestions import hint


def check_environments(
    declared: Mapping[str, Environment], request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, CheckedEnvironment]:
    """Return the valid environments, and report the errors of the others."""
    found = {name: _check_environment(name, one, request, diagnostics) for name, one in declared.items()}
    return {name: one for name, one in found.items() if one is not None}


def _check_environment(
    name: str, declaration: Environment, request: CompileRequest, diagnostics: Diagnostics
) -> CheckedEnvironment | None:
    path: KeyPath = ("environments", name)
    kind = request.catalog.find("environment", declaration.type)
    if not isinstance(kind, Kind):
        help, meant = hint(declaration.type, request.catalog.names("environment"), what="environment types")
        message = f"there is no environment type `{declaration.type}`"
        diagnostics.add(UNKNOWN_KIND, (*path, "type"), message, help=help, replace=meant)
        return None
    params = _params(declaration, kind, path, diagnostics)
    files = _files(kind, params, path, request, diagnostics) if params is not None else None
    if params is None or files is None:
        return None
    return CheckedEnvironment(declared=declaration, kind=kind, params=params, files=files)


def _params(declaration: Environment, kind: Kind, path: KeyPath, diagnostics: Diagnostics) -> Params | None:
    where = (*path, "params") if declaration.params else path
    node = (
        node_at(diagnostics.root, where)[0] if declaration.params else MappingNode({}, diagnostics.span(path))
    )
    return validate(kind.params, node, where, diagnostics)


def _files(
    kind: Kind, params: Params, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> dict[str, UserFile] | None:
    found: dict[str, UserFile] = {}
    good = True
    for name in kind.files(params):
        read = user_file(name, (*path, "params"), request, diagnostics)
        good = good and read is not None
        if read is not None:
            found[f"environment:{name}"] = read[0]
    return found if good else None
