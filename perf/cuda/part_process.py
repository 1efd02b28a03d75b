"""The process of one part: `python -m perf.cuda.part_process PART ...`, started by `python -m perf.cuda`."""

import argparse
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--stack", choices=("locked", "host"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--failed", default="", help="only record this cause of a failure")
    given = parser.parse_args()
    part = find_part(given.part)
    scale = find_scale(dry=given.dry)
    versions = version_record(scale.card, given.stack)
    if given.failed:
        record_failure(given.out, part.name, part.about, versions, given.failed)
        return 0
    report = Report(given.out, part.name, part.about, versions)
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(given.seconds)
    try:
        if not given.dry:
            check_stack(given.stack)
        bench = Bench(scale, report, given.scratch.resolve(), given.seconds)
        run: Any = import_module(part.module).run
        run(bench)
    except (Exception, SystemExit) as error:
        text = str(error) if isinstance(error, SystemExit | TimeoutError) else traceback.format_exc(limit=-4)
        report.result.error = text or repr(error)
        print(report.result.error, file=sys.stderr)
        return FAILED
    finally:
        signal.alarm(0)
        report.save()
    return 0


def _out_of_time(_signal: int, _frame: Any) -> None:
    raise TimeoutError("the part has reached its limit of time; later rows are missing")


if __name__ == "__main__":
    sys.exit(main())
