"""Writes a Markdown file as the comment of this action on a pull request, and replaces its earlier comment.

Uses the standard library only, because it runs with the Python of the runner.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

MARKER = "<!-- posttrain-plan -->"
MAX_CHARACTERS = 65_536  # GitHub refuses longer comments
_PAGE = 100
_TRUNCATED = "\n\nThe comment is truncated; the summary of the job has the complete text.\n"


def main() -> None:
    text = Path(os.environ["MARKDOWN"]).read_text(encoding="utf-8", errors="replace")
    repository, number = os.environ["GITHUB_REPOSITORY"], int(os.environ["PULL_REQUEST"])
    body = {"body": comment_body(text)}
    try:
        found = find_comment(f"/repos/{repository}/issues/{number}/comments")
        if found is None:
            request("POST", f"/repos/{repository}/issues/{number}/comments", body)
        else:
            request("PATCH", f"/repos/{repository}/issues/comments/{found}", body)
    except urllib.error.HTTPError as error:
        if error.code not in (401, 403, 404):
            fail(f"GitHub refused the comment: status {error.code}")
        # The token of a pull request from a fork can only read.
        print(
            f"::warning title=posttrain::no comment: the token may not write it ({error.code}); the job needs"
            " the permission `pull-requests: write`. The summary of the job has the text."
        )
    except (OSError, ValueError) as error:
        fail(f"GitHub cannot be reached: {error}")


def fail(cause: str) -> NoReturn:
    line = " ".join(cause.split())  # an annotation is one line
    print(f"::error title=posttrain::{line}. The summary of the job has the text; run the job again.")
    sys.exit(1)


def comment_body(text: str) -> str:
    """The text with the marker, at most as long as GitHub accepts. Lines are never cut in the middle."""
    whole = f"{MARKER}\n{text}"
    if len(whole) <= MAX_CHARACTERS:
        return whole
    # Room for an unfolded part that the cut leaves open.
    cut = whole[: MAX_CHARACTERS - len(_TRUNCATED) - 100].rpartition("\n")[0]
    is_open = cut.count("<details>") > cut.count("</details>")
    return cut + ("\n\n</details>" if is_open else "") + _TRUNCATED


def find_comment(path: str) -> int | None:
    """The id of the first comment with the marker. Users can change theirs later: these are ignored."""
    page = 1
    while True:
        comments = request("GET", f"{path}?per_page={_PAGE}&page={page}")
        for comment in comments:
            author = comment["user"] or {}  # null for an account that is gone
            if (comment["body"] or "").startswith(MARKER) and author.get("type") == "Bot":
                return comment["id"]
        if len(comments) < _PAGE:
            return None
        page += 1


def request(method: str, path: str, body: Any = None) -> Any:
    api = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    call = urllib.request.Request(
        api + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(call, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
