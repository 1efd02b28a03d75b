"""Lists the modules that Python source imports. No code is executed."""

import ast
import sys
from collections.abc import Iterator

from posttrain.runtime.preflight.call_signature import child_statements
from posttrain.spec.record import record

_MISSING_MODULE_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


@record(kw_only=True)
class ImportedModule:
    """A module, and whether the file always imports it when it is loaded."""

    # Starts with a dot if the import is relative.
    name: str
    line: int
    # False inside a function: the import may never be executed.
    at_load: bool


def imported_modules(module: ast.Module) -> Iterator[ImportedModule]:
    """The modules of other distributions and files, each with its first line.

    Imports that the code guards against a missing module, or that only type checkers read, are left out.
    """
    found: dict[str, ImportedModule] = {}
    for one in _imports(module.body, at_load=True):
        if one.name.partition(".")[0] in sys.stdlib_module_names:
            continue
        known = found.get(one.name)
        if known is None or (one.at_load and not known.at_load):
            found[one.name] = one
    yield from found.values()


def _imports(body: list[ast.stmt], *, at_load: bool) -> Iterator[ImportedModule]:
    for statement in body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield ImportedModule(name=alias.name, line=statement.lineno, at_load=at_load)
        elif isinstance(statement, ast.ImportFrom):
            name = "." * statement.level + (statement.module or "")
            yield ImportedModule(name=name, line=statement.lineno, at_load=at_load)
        elif isinstance(statement, ast.If) and _is_type_checking(statement.test):
            yield from _imports(statement.orelse, at_load=at_load)
        elif isinstance(statement, ast.Try) and _catches_missing_modules(statement):
            for part in (statement.orelse, statement.finalbody):
                yield from _imports(part, at_load=at_load)
        else:
            inside = at_load and not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            # An `if` can depend on the platform or the version.
            inside = inside and not isinstance(statement, ast.If | ast.Match)
            yield from _imports(child_statements(statement), at_load=inside)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _catches_missing_modules(statement: ast.Try) -> bool:
    for handler in statement.handlers:
        if handler.type is None:
            return True
        named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if any(isinstance(one, ast.Name) and one.id in _MISSING_MODULE_ERRORS for one in named):
            return True
    return False
