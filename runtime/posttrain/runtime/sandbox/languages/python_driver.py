"""Runs a program inside the sandbox: `python driver.py PROGRAM stdin|call DESCRIPTOR`.

stdin   runs the program as a script
call    reads {"call": NAME, "args": [...], "kwargs": {...}} from standard input, and writes the return value
        of the function to standard output as JSON; what the program prints goes to standard error

The driver has the inputs of a test but not the expected answer. The program shares this process, so its
result is not trusted. The driver imports only modules that the program may import as well.
"""

import builtins
import os
import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NOT_COMPILED, _NO_MEMORY, _NO_RESULT = 91, 92, 93


def main(program: str, input_mode: str, started: int) -> None:
    with open(program, "rb") as file:
        source = file.read()
    call, result = None, -1
    if input_mode == "call":
        call, result = _read_call()
    # The module `site` usually defines these, but the interpreter runs without it.
    builtins.exit = builtins.quit = sys.exit
    sys.argv = ["program.py"]
    module = ModuleType("__main__" if input_mode == "stdin" else "program")
    module.__file__ = "program.py"
    sys.modules[module.__name__] = module
    os.write(started, b"1")
    os.close(started)
    try:
        _execute(source, module, call, result)
    except MemoryError:
        os._exit(_NO_MEMORY)


def _execute(source: bytes, module: ModuleType, call: "Any", result: int) -> None:
    try:
        code = compile(source, "program.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(_NOT_COMPILED)
    exec(code, module.__dict__)
    if call is not None:
        _write_result(_find_function(module, call["call"])(*call["args"], **call["kwargs"]), result)


def _read_call() -> "tuple[Any, int]":
    import json

    call = json.loads(sys.stdin.buffer.read())
    result = os.dup(1)
    os.dup2(2, 1)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    return call, result


def _find_function(module: ModuleType, name: str) -> "Any":
    """Find a function such as `solve`, or a method such as `Solution.solve` of a new instance."""
    first, *rest = name.split(".")
    value = vars(module)[first]
    for part in rest:
        value = getattr(value() if isinstance(value, type) else value, part)
    return value


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
    """Convert a value for JSON: a tuple to a list, a set to a sorted list, keys of a mapping to text."""
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
