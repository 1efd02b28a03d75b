"""A git repository with a recipe, made with the real git."""

import os
import subprocess
from pathlib import Path

RECIPE = """\
recipe: 1
name: programs
stages:
  count: {script: [sh, -c, "echo counted; wc -w < words.txt > $OUT/count"], files: [words.txt]}
  double:
    script: [sh, -c, "echo $(( 2 * $(cat $INPUT_NUMBER/count) )) > $OUT/count"]
    inputs: {number: count}
  other: {script: [sh, -c, "echo other > $OUT/x"]}
"""


class GitProject:
    """A repository whose recipe is in the folder `recipes/words`."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.folder = top / "recipes" / "words"
        self.folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        (self.folder / "recipe.yaml").write_text(RECIPE)
        (self.folder / "words.txt").write_text("one two three\n")
        self.commit("first")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        return git(cwd or self.top, *arguments)

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()

    def edit(self, old: str, new: str) -> None:
        path = self.folder / "recipe.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


def git(folder: Path, *arguments: str) -> str:
    identity = {
        f"GIT_{who}_{what}": "a@b.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env={**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
