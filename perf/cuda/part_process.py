"""The process of one part: `python -m perf.cuda.part_process PART ...`, started by `python -m perf.cuda`."""

import argparse
import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from perf.cuda.__main__ import FAILED
from perf.cuda.bench import Bench
from perf.cuda.parts import find_part
from perf.cuda.results import Report, record_failure
from perf.cuda.scale import find_scale
from perf.cuda.versions import check_stack, version_record

from posttrain.runtime.process_tree import die_with_parent

_REPEAT_SECONDS = 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--stack", choices=("locked", "host"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--image")
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--failed", default="", help="only record this cause of a failure")
    given = parser.parse_args()
    die_with_parent(os.getppid())  # nothing may use the card after `python -m perf.cuda`
    part = find_part(given.part)
    scale = find_scale(dry=given.dry)
    versions = version_record(scale.card, given.stack)
    if given.failed:
        record_failure(given.out, part.name, part.about, versions, given.failed)
        return 0
    report = Report(given.out, part.name, part.about, versions)
    signal.signal(signal.SIGALRM, _out_of_time)
    # Again and again: a library may catch whatever its import raises.
    signal.setitimer(signal.ITIMER_REAL, given.seconds, _REPEAT_SECONDS)
    try:
        if not given.dry:
            check_stack(given.stack)
        bench = Bench(scale, report, given.scratch.resolve(), given.seconds, given.image)
        run: Any = import_module(part.module).run
        run(bench)
    except (Exception, SystemExit, OutOfTime) as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        expected = isinstance(error, SystemExit | OutOfTime)
        report.finish(str(error) if expected else traceback.format_exc(limit=-4))
        print(report.result.error, file=sys.stderr)
        return FAILED
    signal.setitimer(signal.ITIMER_REAL, 0)
    report.finish()
    return 0


class OutOfTime(BaseException):
    """Not an Exception, which a row would record as its own failure."""


def _out_of_time(_signal: int, _frame: Any) -> None:
    raise OutOfTime("the part has reached its limit of time; later rows are missing")


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the page is complete: the teardown of libraries must not exceed the limit of time
