"""Downloads a file of a stream while a training uses the one before it: `python -m ... STREAM NUMBER FOLDER`.

It is a process of its own, because the training forks processes, and a fork must not copy a thread that holds
a lock. If it fails, the training downloads the file itself and reports the error.
"""

import os
import subprocess
import sys
from pathlib import Path

from posttrain.runtime.process_tree import die_with_parent
from posttrain.runtime.streams.row_stream import read_stream
from posttrain.runtime.streams.stream_files import open_file


def start_prefetch(product: Path, number: int, folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", __name__, str(product), str(number), str(folder), str(os.getpid())]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main(product: str, number: str, folder: str, parent: str) -> None:
    die_with_parent(int(parent))
    open_file(read_stream(Path(product)), int(number), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
