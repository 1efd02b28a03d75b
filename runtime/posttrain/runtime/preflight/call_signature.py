"""Finds definitions in Python source and compares their signatures with a call. No code is executed."""

import ast
from collections.abc import Iterator, Sequence

from posttrain.spec.record import record
from posttrain.spec.suggestions import hint

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
# Expressions whose value cannot be called.
_VALUES = (ast.Constant, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.JoinedStr)
# The methods of an environment, with the positional arguments of a call.
_EPISODE_METHODS = {"reset": ("row", "seed"), "step": ("action",), "score": ()}


@record(kw_only=True)
class Problem:
    """Why a call would fail, with the line of the file, and what to do."""

    line: int
    cause: str
    advice: str


def check_function(module: ast.Module, name: str, arguments: Sequence[str]) -> Problem | None:
    """The problem of a call with these keyword arguments, if the source shows one."""
    found = _find_definition(module, name)
    if isinstance(found, Problem) or found is None:
        return found or _check_value(module, name, arguments)
    if isinstance(found, ast.AsyncFunctionDef):
        cause = f"`{name}` is a coroutine function, and rewards are not awaited"
        return Problem(line=found.lineno, cause=cause, advice="define it with `def`")
    if isinstance(found, ast.ClassDef):
        return None if _is_open_ended(found) else _class_problem(found)
    if found.decorator_list:  # a decorator can change the signature
        return None
    if _yields(found.body):
        cause = f"`{name}` is a generator function: a call returns a generator, not a value"
        return Problem(line=found.lineno, cause=cause, advice="return the value instead of `yield`")
    return _check_keywords(found.args, name, found.lineno, arguments, skip=0)


def check_row_function(module: ast.Module, name: str, arguments: Sequence[str]) -> Problem | None:
    """The problem of a call with a row and these keyword arguments, if the source shows one."""
    found = _find_definition(module, name)
    if isinstance(found, Problem) or found is None:
        return found
    if isinstance(found, ast.AsyncFunctionDef):
        cause = f"`{name}` is a coroutine function, and its rows are not awaited"
        return Problem(line=found.lineno, cause=cause, advice="define it with `def`")
    if isinstance(found, ast.ClassDef) or found.decorator_list:
        return None
    positional = [*found.args.posonlyargs, *found.args.args]
    if not positional and found.args.vararg is None:
        cause = f"`{name}` takes no positional argument for the row"
        return Problem(line=found.lineno, cause=cause, advice=f"define it as `def {name}(row)`")
    takes_seed = any(one.arg == "seed" for one in (*positional[1:], *found.args.kwonlyargs))
    passed = (*arguments, "seed") if takes_seed and "seed" not in arguments else arguments
    return _check_keywords(found.args, name, found.lineno, passed, skip=1)


def _check_value(module: ast.Module, name: str, arguments: Sequence[str]) -> Problem | None:
    """The problem of a name that is bound only once, to a constant or to a lambda."""
    bound = [one for one in _statements(module.body) if _binds([one], name)]
    only = bound[0] if len(bound) == 1 else None
    value = only.value if isinstance(only, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Lambda):
        return _check_keywords(value.args, name, value.lineno, arguments, skip=0)
    rebound = any(isinstance(node, ast.Global) and name in node.names for node in ast.walk(module))
    defined = any(one.name == name for one in _definitions(module.body))
    if isinstance(value, _VALUES) and not rebound and not defined:
        cause = f"`{name}` is a value, not a function"
        return Problem(line=value.lineno, cause=cause, advice=f"define `{name}` with `def`")
    return None


def _class_problem(found: ast.ClassDef) -> Problem:
    cause = f"`{found.name}` is a class: a call returns an instance, not a value"
    advice = f"define a function, or a name for an instance: NAME = {found.name}()"
    return Problem(line=found.lineno, cause=cause, advice=advice)


def _is_open_ended(found: ast.ClassDef) -> bool:
    """Whether a class can have more than its source shows."""
    inherits = any(not (isinstance(base, ast.Name) and base.id == "object") for base in found.bases)
    return inherits or bool(found.decorator_list or found.keywords) or _defines(found, "__new__")


def _defines(found: ast.ClassDef, method: str) -> bool:
    return any(isinstance(one, FunctionNode) and one.name == method for one in found.body)


def _yields(body: Sequence[ast.stmt]) -> bool:
    """Whether a function with this body is a generator function; functions inside it do not count."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda | ast.GeneratorExp):
            pending += ast.iter_child_nodes(node)
    return False


def check_class(module: ast.Module, name: str, arguments: Sequence[str]) -> Problem | None:
    """The problem of an environment class that is constructed with these keyword arguments."""
    found = _find_definition(module, name)
    if isinstance(found, Problem) or not isinstance(found, ast.ClassDef):
        return found if isinstance(found, Problem) else None
    methods = {one.name: one for one in found.body if isinstance(one, FunctionNode)}
    open_ended = _is_open_ended(found) or "__getattr__" in methods
    for method, passed in _EPISODE_METHODS.items():
        if method in methods:
            problem = _check_positional(methods[method], f"{name}.{method}", passed)
            if problem is not None:
                return problem
        elif not open_ended and not _binds(found.body, method):
            cause = f"the class `{name}` has no method `{method}`"
            return Problem(line=found.lineno, cause=cause, advice=f"define `{method}` in the class")
    start = methods.get("__init__")
    if start is not None and not start.decorator_list:
        return _check_keywords(start.args, f"{name}.__init__", start.lineno, arguments, skip=1)
    if start is None and arguments and not open_ended:
        cause = f"`{name}` takes no arguments, and the recipe passes {_listed(arguments)}"
        return Problem(line=found.lineno, cause=cause, advice="remove `with`, or define `__init__`")
    return None


def _find_definition(module: ast.Module, name: str) -> FunctionNode | ast.ClassDef | Problem | None:
    """The last definition of a name; None if the name is bound in another way or can be."""
    definitions = list(_definitions(module.body))
    matching = [one for one in definitions if one.name == name]
    if _binds(module.body, name):
        return None
    if matching:
        return matching[-1]
    if _binds(module.body, "*") or any(one.name == "__getattr__" for one in definitions):
        return None
    help, _ = hint(name, [one.name for one in definitions], what="definitions")
    return Problem(line=1, cause=f"the file does not define `{name}`", advice=help or f"define `{name}`")


def _definitions(body: Sequence[ast.stmt]) -> Iterator[FunctionNode | ast.ClassDef]:
    for statement in _statements(body):
        if isinstance(statement, FunctionNode | ast.ClassDef):
            yield statement


def child_statements(statement: ast.stmt) -> list[ast.stmt]:
    """The statements directly inside a compound statement, in all its branches."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found += child.body
    return found


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a scope, with those inside `if`, `try`, `with` and loops."""
    for statement in body:
        yield statement
        if not isinstance(statement, FunctionNode | ast.ClassDef):
            yield from _statements(child_statements(statement))


def _binds(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether an assignment or an import binds the name."""
    for statement in _statements(body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            if any(name in (one.asname, one.name.partition(".")[0]) for one in statement.names):
                return True
        elif not isinstance(statement, FunctionNode | ast.ClassDef):
            children = [one for one in ast.iter_child_nodes(statement) if isinstance(one, ast.expr)]
            names = (node for child in children for node in ast.walk(child) if isinstance(node, ast.Name))
            if any(one.id == name and isinstance(one.ctx, ast.Store) for one in names):
                return True
    return False


def _check_keywords(
    parameters: ast.arguments, name: str, line: int, arguments: Sequence[str], *, skip: int
) -> Problem | None:
    """Compare keyword arguments with a signature, without its first `skip` parameters."""
    positional = [*parameters.posonlyargs, *parameters.args]
    only_positional = {one.arg for one in parameters.posonlyargs}
    optional = {one.arg for one in positional[len(positional) - len(parameters.defaults) :]}
    optional |= {
        one.arg for one, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if default
    }
    named = [one.arg for one in (*positional[skip:], *parameters.kwonlyargs)]
    by_keyword = [one for one in named if one not in only_positional]
    unknown = [one for one in arguments if one not in by_keyword]
    if unknown and parameters.kwarg is None:
        cause = f"`{name}` takes {_listed(by_keyword)}, and the recipe passes {_listed(unknown)}"
        if only_positional.intersection(unknown):
            cause += " by name"
        return Problem(line=line, cause=cause, advice="rename the parameter, or the argument in the recipe")
    missing = [one for one in named if one not in arguments and one not in optional]
    if missing:
        cause = f"`{name}` requires {_listed(missing)}, which the recipe does not pass"
        return Problem(line=line, cause=cause, advice="pass it under `with`, or give the parameter a default")
    return None


def _check_positional(method: FunctionNode, name: str, passed: Sequence[str]) -> Problem | None:
    parameters = method.args
    if method.decorator_list:
        return None
    positional = len(parameters.posonlyargs) + len(parameters.args) - 1  # without self
    required = positional - len(parameters.defaults)
    keyword_only = [
        one.arg
        for one, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
        if default is None
    ]
    fits = required <= len(passed) and (len(passed) <= positional or parameters.vararg is not None)
    if fits and not keyword_only and not isinstance(method, ast.AsyncFunctionDef):
        return None
    cause = f"`{name}` cannot be called as {method.name}({', '.join(passed)})"
    advice = f"define it as `def {method.name}({', '.join(('self', *passed))})`"
    return Problem(line=method.lineno, cause=cause, advice=advice)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{one}`" for one in names) or "no arguments"
