"""Finds packages in the interpreter that runs this file: `PYTHON -c PROGRAM PACKAGES`.

PACKAGES is a JSON list of names. It prints a JSON object with the version of each, or null. This file imports
only the standard library, because another interpreter can run it.
"""

import json
import sys
from importlib.metadata import PackageNotFoundError, version


def main(names: "list[str]") -> None:
    # Without the working folder, which the interpreter adds.
    del sys.path[0]
    print(json.dumps({name: installed_version(name) for name in names}))


def installed_version(name: str) -> "str | None":
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
