"""Where DeepSpeed's kernels are compiled at their first use, so that no killed builder stops the next.

torch marks a build that is under way by a file, and whoever finds one waits until it is gone: for
ever, if the builder was killed. So the folder is one of our own, and whoever may build in it holds
a lock that the kernel frees. Where nobody holds it, a mark is that of a dead builder.
"""

import fcntl
import hashlib
import os
import sys
from importlib.metadata import version
from pathlib import Path

_EXTENSIONS_DIR_VARIABLE = "TORCH_EXTENSIONS_DIR"


def extensions_dir() -> Path:
    """What was compiled for this environment: the builder looks at the paths of torch's headers, and would
    compile again for each of two environments that share a folder, in turns."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    where = hashlib.sha256(sys.prefix.encode()).hexdigest()[:8]
    return cache / "posttrain" / "torch_extensions" / f"{python}-torch{version('torch')}-{where}"


def use_extension_cache() -> None:
    """Let this process and those forked from it compile here, as long as they live."""
    if _EXTENSIONS_DIR_VARIABLE in os.environ:  # a folder of the user's, in which others may be building
        return
    folder = extensions_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "builders", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:  # a home that cannot be written: an image has them compiled
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        for mark in folder.glob("*/lock"):
            mark.unlink(missing_ok=True)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.environ[_EXTENSIONS_DIR_VARIABLE] = str(folder)
