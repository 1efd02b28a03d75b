"""Sets the cache folder for DeepSpeed's compiled kernels, and removes stale build locks from it.

torch marks a running build with a lock file, and other processes wait for that file to disappear: forever, if
the builder was killed. Therefore posttrain uses its own folder, and every process that may build in it holds
a file lock that the operating system releases. If no process holds the file lock, a torch lock file is stale.
"""

import fcntl
import hashlib
import os
import sys
from importlib.metadata import version
from pathlib import Path

_EXTENSIONS_DIR_VARIABLE = "TORCH_EXTENSIONS_DIR"


def extensions_dir() -> Path:
    """Return the cache folder of this Python environment.

    The build depends on the paths of torch's headers: two environments that share a folder would recompile
    each time the other has used it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    where = hashlib.sha256(sys.prefix.encode()).hexdigest()[:8]
    return cache / "posttrain" / "torch_extensions" / f"{python}-torch{version('torch')}-{where}"


def use_extension_cache() -> None:
    """Use the cache folder in this process and its forks, for as long as they run."""
    if _EXTENSIONS_DIR_VARIABLE in os.environ:  # the user's own folder, where other builds may be running
        return
    folder = extensions_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "builders", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:  # read-only home folder: container images contain compiled kernels
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
