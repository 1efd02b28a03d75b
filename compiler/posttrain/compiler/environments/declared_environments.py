"""The environments that a recipe declares: their kinds, parameters and files."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.suggest import hint
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


def check_environments(
    declared: Mapping[str, Environment], request: CompileRequest, findings: Diagnostics
) -> dict[str, CheckedEnvironment]:
    """Those of the environments that are as they should be; what is wrong with the others is reported."""
    found = {name: _check_environment(name, one, request, findings) for name, one in declared.items()}
    return {name: world for name, world in found.items() if world is not None}


def _check_environment(
    name: str, declared: Environment, request: CompileRequest, findings: Diagnostics
) -> CheckedEnvironment | None:
    path: KeyPath = ("environments", name)
    kind = request.catalog.find("environment", declared.kind)
    if not isinstance(kind, Kind):
        help, meant = hint(declared.kind, request.catalog.names("environment"), what="kinds")
        message = f"there is no environment of the kind `{declared.kind}`"
        findings.add(UNKNOWN_KIND, (*path, "kind"), message, help=help, replace=meant)
        return None
    params = _params(declared, kind, path, findings)
    files = _files(kind, params, path, request, findings) if params is not None else None
    if params is None or files is None:
        return None
    return CheckedEnvironment(declared=declared, kind=kind, params=params, files=files)


def _params(declared: Environment, kind: Kind, path: KeyPath, findings: Diagnostics) -> Params | None:
    where = (*path, "params") if declared.params else path
    node = node_at(findings.root, where)[0] if declared.params else MappingNode({}, findings.span(path))
    return validate(kind.params, node, where, findings)


def _files(
    kind: Kind, params: Params, path: KeyPath, request: CompileRequest, findings: Diagnostics
) -> dict[str, UserFile] | None:
    found: dict[str, UserFile] = {}
    good = True
    for name in kind.files(params):
        read = user_file(name, (*path, "params"), request.read, findings)
        good = good and read is not None
        if read is not None:
            found[f"environment:{name}"] = read[0]
    return found if good else None
