"""Measures `recipe push` of a large product next to sha256 and cp of its files, in turns.

    python perf/registry.py [--megabytes 1000] [--files 1] [--rounds 3]

Each round has a new registry (docker-registry) and an empty cache of the user, so that every byte is sent.
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

RECIPE = """recipe: 1
name: large
stages:
  made:
    script: [sh, -c, 'for n in $(seq {files}); do head -c {size} /dev/urandom > $OUT/$n; done']
"""
# As the store hashes: OpenSSL uses the instructions of the processor, which sha256sum does not everywhere.
HASH = (
    "import hashlib, sys; [hashlib.file_digest(open(f, 'rb', buffering=0), 'sha256') for f in sys.argv[1:]]"
)
COMMAND = [sys.executable, "-m", "posttrain.cli.main"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=int, default=1000)
    options.add_argument("--files", type=int, default=1, help="the product has this number of equal files")
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="perf-registry-") as name:
        folder = Path(name)
        (folder / "recipe.yaml").write_text(
            RECIPE.format(size=given.megabytes * 1_000_000 // given.files, files=given.files)
        )
        home = folder / "home"
        timed([*COMMAND, "run", str(folder), "--home", str(home)], os.environ)
        (product,) = (home / "store").glob("*/files")
        rounds = [measure(folder, home, sorted(product.iterdir())) for _ in range(given.rounds)]
    for name in (name for name in rounds[0] if name != "push MB"):
        seconds = sorted(one[name] for one in rounds)
        print(f"{name:24} {statistics.median(seconds):7.2f} s   ({', '.join(f'{s:.2f}' for s in seconds)})")
    for name in ("sha256", "sha256sum"):
        ratios = sorted(one["push"] / (one[name] + one["cp"]) for one in rounds)
        texts = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{f'push / ({name} + cp)':24} {statistics.median(ratios):7.2f}     ({texts})")
    print(f"peak memory of a push    {max(one['push MB'] for one in rounds):7.0f} MB")


def measure(folder: Path, home: Path, files: list[Path]) -> dict[str, float]:
    """The seconds of each part, in turns, because other programs of the machine disturb all of them."""
    copy = folder / "copy"
    found = {
        "sha256": timed([sys.executable, "-c", HASH, *map(str, files)], os.environ),
        "sha256sum": timed(["sha256sum", *map(str, files)], os.environ),
        "cp": timed(["cp", "-r", str(files[0].parent), str(copy)], os.environ),
    }
    shutil.rmtree(copy)
    with serve_registry(folder / "registry") as address:
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        push = [*COMMAND, "push", "made", f"oci://{address}/large:v1", "--home", str(home)]
        found["push"], found["push MB"] = run(push, environment)
        found["push again"] = timed(push, environment)
        push[5] = f"oci://{address}/other:v1"
        found["push to another name"] = timed(push, environment)
    shutil.rmtree(folder / "registry")
    shutil.rmtree(folder / "cache")
    return found


def timed(command: list[str], environment: Mapping[str, str]) -> float:
    return run(command, environment)[0]


def run(command: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """The seconds and the peak memory in MB of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.perf_counter() - began, usage.ru_maxrss / 1024


@contextmanager
def serve_registry(folder: Path) -> Generator[str]:
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "registry.yaml").write_text(
        "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}\nhttp: {{addr: '{address}'}}\n"
    )
    server = subprocess.Popen(
        ["docker-registry", "serve", folder / "registry.yaml"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"http://{address}/v2/")
        yield address
    finally:
        server.terminate()
        server.wait()


def wait_for(url: str) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the registry did not start")


if __name__ == "__main__":
    main()
