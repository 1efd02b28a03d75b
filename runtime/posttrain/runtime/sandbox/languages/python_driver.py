"""Runs inside the box: `python driver.py PROGRAM stdin|call DESCRIPTOR`. It knows inputs, and no answers.

stdin   the program is run as a script
call    standard input holds {"call": NAME, "args": [...], "kwargs": {...}}; what the function gives is
        written to standard output as JSON, and what the program prints goes elsewhere

Nothing from the program is trusted here: it shares this process, and can at most lie about its own result.
It imports nothing that the program could not have.
"""

import builtins
import os
import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NOT_COMPILED, _NO_MEMORY, _NO_RESULT = 91, 92, 93


def main(program: str, way: str, begun: int) -> None:
    with open(program, "rb") as file:
        source = file.read()
    asked, result = None, -1
    if way == "call":
        asked, result = _read_call()
    # These come with the module `site`, which is not there.
    builtins.exit = builtins.quit = sys.exit
    sys.argv = ["program.py"]
    module = ModuleType("__main__" if way == "stdin" else "program")
    module.__file__ = "program.py"
    sys.modules[module.__name__] = module
    os.write(begun, b"1")
    os.close(begun)
    try:
        _execute(source, module, asked, result)
    except MemoryError:
        os._exit(_NO_MEMORY)


def _execute(source: bytes, module: ModuleType, asked: "Any", result: int) -> None:
    try:
        code = compile(source, "program.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(_NOT_COMPILED)
    exec(code, module.__dict__)
    if asked is not None:
        _write_result(_find_function(module, asked["call"])(*asked["args"], **asked["kwargs"]), result)


def _read_call() -> "tuple[Any, int]":
    import json

    asked = json.loads(sys.stdin.buffer.read())
    result = os.dup(1)
    os.dup2(2, 1)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    return asked, result


def _find_function(module: ModuleType, name: str) -> "Any":
    """`solve`, or `Solution.solve`, for which a Solution is made."""
    first, *rest = name.split(".")
    found = vars(module)[first]
    for part in rest:
        found = getattr(found() if isinstance(found, type) else found, part)
    return found


def _write_result(value: object, result: int) -> None:
    import json

    try:
        text = json.dumps(_to_json(value)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(_NO_RESULT)
    while text:
        text = text[os.write(result, text) :]
    os._exit(0)


def _to_json(value: "Any") -> "Any":
    """The value as JSON has it: a tuple is a list, a set a list in order, a key of a mapping text."""
    if isinstance(value, (set, frozenset)):
        try:
            value = sorted(value)
        except TypeError:
            value = sorted(value, key=repr)
    if isinstance(value, (list, tuple)):
        return [_to_json(one) for one in value]
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _to_json(one) for key, one in value.items()}
    return value


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
