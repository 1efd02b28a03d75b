"""The environments that a recipe declares: their kinds, parameters and files."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.environments.codes import UNKNOWN_KIND
from posttrain.compiler.environments.world import World
from posttrain.compiler.files import user_file
from posttrain.compiler.reading.validate import validate
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Mapped, Path, at
from posttrain.spec.extension import Environment as Kind
from posttrain.spec.extension import Params
from posttrain.spec.materials import Environment
from posttrain.spec.plan import UserFile


def worlds(declared: Mapping[str, Environment], request: Request, findings: Findings) -> dict[str, World]:
    """Those of the environments that are as they should be; what is wrong with the others is reported."""
    found = {name: _world(name, one, request, findings) for name, one in declared.items()}
    return {name: world for name, world in found.items() if world is not None}


def _world(name: str, declared: Environment, request: Request, findings: Findings) -> World | None:
    path: Path = ("environments", name)
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
    return World(declared=declared, kind=kind, params=params, files=files)


def _params(declared: Environment, kind: Kind, path: Path, findings: Findings) -> Params | None:
    where = (*path, "params") if declared.params else path
    node = at(findings.root, where)[0] if declared.params else Mapped({}, findings.span(path))
    return validate(kind.params, node, where, findings)


def _files(
    kind: Kind, params: Params, path: Path, request: Request, findings: Findings
) -> dict[str, UserFile] | None:
    found: dict[str, UserFile] = {}
    good = True
    for name in kind.files(params):
        read = user_file(name, (*path, "params"), request.read, findings)
        good = good and read is not None
        if read is not None:
            found[f"environment:{name}"] = read[0]
    return found if good else None
