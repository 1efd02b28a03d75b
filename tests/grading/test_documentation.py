"""The examples of docs/grading.md run, and print what the page shows."""

import doctest
import re
from pathlib import Path

from posttrain import grading

PAGE = Path(__file__).parents[2] / "docs" / "grading.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def code_blocks(page: Path = PAGE) -> list[str]:
    return CODE.findall(page.read_text(encoding="utf-8"))


def test_the_examples_print_what_the_page_shows():
    examples = "\n".join(block for block in code_blocks() if block.startswith(">>>"))
    test = doctest.DocTestParser().get_doctest(examples, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 15
    report: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert results.failed == 0, "".join(report)


def test_the_page_names_the_whole_api():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in grading.__all__ if f"`{name}" not in text] == []
