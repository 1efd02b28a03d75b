"""Checks the functions and classes of the user: that they exist, accept the call, and find their imports.

The source is parsed, never executed. Imports are resolved in the interpreter that will run the code.
"""

import ast
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from posttrain.runtime.errors import StepError
from posttrain.runtime.preflight.call_signature import check_class, check_function, check_row_function
from posttrain.runtime.preflight.finding import Finding, error, warning
from posttrain.runtime.preflight.import_names import ImportedModule, imported_modules
from posttrain.runtime.preflight.module_search import (
    finder_arguments,
    interpreter_variables,
    missing_modules,
)
from posttrain.runtime.preflight.scope import Probe, Scope
from posttrain.runtime.preflight.step_parts import UserCode, user_code
from posttrain.runtime.store.user_files import find_user_file
from posttrain.spec.plan import Step
from posttrain.spec.record import record


@record(kw_only=True)
class _Import:
    """An import in a file of the user, and the code for which the file is loaded."""

    code: UserCode
    file: str
    module: ImportedModule


def probes(scope: Scope) -> Iterator[Probe]:
    for step in scope.steps:
        codes = list(user_code(step))
        if codes:
            yield lambda step=step, codes=codes: _check_step(step, codes, scope)


def _check_step(step: Step, codes: Sequence[UserCode], scope: Scope) -> list[Finding]:
    found: list[Finding] = []
    imports: list[_Import] = []
    seen: set[str] = set()
    for code in codes:
        for file in (code.file, *code.modules):
            source = _parse(code, file, scope.recipe_dir)
            if isinstance(source, Finding):
                found.append(source)
                continue
            if file == code.file:
                found += _check_call(code, source)
            if file in seen:
                continue  # its imports are reported where it is named first
            seen.add(file)
            imports += [_Import(code=code, file=file, module=one) for one in imported_modules(source)]
    return found + _check_imports(step, imports, scope)


def _parse(code: UserCode, file: str, folder: Path) -> ast.Module | Finding:
    try:
        return ast.parse(_find(code.step, file, folder).read_bytes(), file)
    except OSError as problem:
        cause = f"`{code.call}`: cannot read {file}: {problem.strerror}"
        return error("function", code.step, cause, "restore the file", declaration=code.declaration)
    except (SyntaxError, ValueError) as problem:  # ValueError: a null character
        line = getattr(problem, "lineno", None) or 1
        cause = f"`{code.call}`: {file}:{line}: {getattr(problem, 'msg', problem)}"
        advice = "correct the syntax of the file"
        return error("function", code.step, cause, advice, declaration=code.declaration)


def _find(step: Step, file: str, folder: Path) -> Path:
    """The file of a name in the step, which can be that of an artifact."""
    named = next((one for one in step.files.values() if one.path == file), None)
    return folder / file if named is None else find_user_file(folder, named)


def _check_call(code: UserCode, source: ast.Module) -> list[Finding]:
    problem = _CHECKS[code.kind](source, code.name, code.arguments)
    if problem is None:
        return []
    cause = f"`{code.call}`: {problem.cause} ({code.file}:{problem.line})"
    return [error("function", code.step, cause, problem.advice, declaration=code.declaration)]


_CHECKS = {"function": check_function, "row function": check_row_function, "class": check_class}


def _check_imports(step: Step, imports: Sequence[_Import], scope: Scope) -> list[Finding]:
    """The imports that the interpreter of the step does not find."""
    foreign = [one for one in imports if not _is_own_file(one)]
    if not foreign:
        return []
    names = dict.fromkeys(one.module.name for one in foreign if not _is_relative(one))
    missing = _find_missing(step, list(names)) if names else frozenset[str]()
    interpreter = step.image or sys.executable
    return [
        _explain_import(one, interpreter, scope)
        for one in foreign
        if one.module.name in missing or _is_relative(one)
    ]


def _find_missing(step: Step, names: Sequence[str]) -> frozenset[str]:
    """The modules that the step will not find. Of an image that is not on this machine nothing is known."""
    if step.image is None:
        return missing_modules([sys.executable], names, interpreter_variables(step))
    from posttrain.runtime.runners.image_check import local_image_output

    try:
        output = local_image_output(step.image, finder_arguments(names))
    except StepError:
        return frozenset()  # reported with the images
    return frozenset() if output is None else frozenset(json.loads(output))


def _is_relative(one: _Import) -> bool:
    return one.module.name.startswith(".")


def _is_own_file(one: _Import) -> bool:
    """Whether the module is one of the user's files that the step gets."""
    stems = {Path(name).stem for name in (one.code.file, *one.code.modules)}
    return one.module.name.partition(".")[0] in stems


def _explain_import(one: _Import, interpreter: str, scope: Scope) -> Finding:
    name = one.module.name
    where = f"{one.file}:{one.module.line}"
    cause = f"`{one.code.call}` imports `{name}` ({where}), which {interpreter} does not have"
    neighbor = Path(one.file).parent / f"{name.partition('.')[0]}.py"
    advice = (
        f"list {neighbor} under `modules`"
        if (scope.recipe_dir / neighbor).is_file()
        else "install it in that environment, or guard the import"
    )
    if _is_relative(one):
        cause = f"`{one.code.call}` has a relative import of `{name}` ({where}), and the file is no package"
        advice = "import the module by its name, and list its file under `modules`"
    report = error if one.module.at_load else warning
    return report("function", one.code.step, cause, advice, declaration=one.code.declaration)
