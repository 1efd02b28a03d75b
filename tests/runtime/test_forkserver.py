"""The forkserver, as its client talks to it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

# The worker reports on its garbage collector.
PROGRAM = """
import gc, json, sys
from posttrain.runtime import forkserver, worker

def report(work):
    import decimal
    found = {"enabled": gc.isenabled(), "frozen": gc.get_freeze_count()}
    found["module"] = any(item is vars(decimal) for item in gc.get_objects())
    (work / "found.json").write_text(json.dumps(found))
    return 3

worker.main = report
forkserver.main(int(sys.argv[1]), int(sys.argv[2]))
"""


def test_garbage_collector_of_a_worker_skips_imported_modules(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-c", PROGRAM, str(theirs.fileno()), str(os.getpid())]
    server = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
    theirs.close()
    request = {"start": 1, "work": str(tmp_path), "env": {}, "threads": 1, "gpus": 0, "import": ["decimal"]}
    with ours, (tmp_path / "log").open("wb") as log:
        socket.send_fds(ours, [json.dumps(request).encode()], [log.fileno(), log.fileno()])
        assert json.loads(ours.recv(1 << 16))["started"] == 1
        assert json.loads(ours.recv(1 << 16)) == {"ended": 1, "status": 3}
    assert server.wait() == 0, "it exits with its client"
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["enabled"]
    assert found["frozen"] > 1000
    assert not found["module"]
