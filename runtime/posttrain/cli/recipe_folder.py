"""Reads the files of a recipe for the compiler: of its folder, and of the artifacts that it extends."""

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posttrain.compiler.text.compile_request import ExtendedArtifact


_MAX_NEIGHBORS = 1000  # of a folder of data; only to suggest a name


class RecipeFolder:
    """The files that a recipe can name. A file in its folder takes precedence over one of an artifact."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The unpacked artifacts that it extends, in the order in which they were read.
        self._artifacts: list[Path] = []

    def read(self, name: str) -> bytes | None:
        path = self._resolve(name)
        return None if path is None else path.read_bytes()

    def read_prefix(self, name: str, most: int) -> bytes | None:
        path = self._resolve(name)
        if path is None:
            return None
        with path.open("rb") as file:
            return file.read(most)

    def digest(self, name: str) -> str | None:
        import hashlib

        path = self._resolve(name)
        if path is None:
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def problem(self, name: str) -> str | None:
        """Why a file that exists next to the recipe is not read."""
        return _read_problem(self._folder, name)

    def neighbors(self, name: str) -> list[str]:
        """The paths of readable files in the folder of a path, inside the recipe's folder."""
        folder = (self._folder / name).parent
        try:
            if not folder.resolve().is_relative_to(self._folder.resolve()):
                return []
            with os.scandir(folder) as entries:
                names = sorted(
                    entry.name for entry in itertools.islice(entries, _MAX_NEIGHBORS) if entry.is_file()
                )
        except (OSError, ValueError, RuntimeError):
            return []
        return [str(Path(name).parent / found) for found in names if not found.startswith(".")]

    def read_artifact(self, reference: str) -> "ExtendedArtifact | str":
        """Fetch a recipe that this one extends. Returns the reason if that is not possible."""
        from posttrain.compiler.text.compile_request import ExtendedArtifact, SourceFile
        from posttrain.runtime.artifacts.recipe_fetch import fetch_recipe
        from posttrain.runtime.errors import StepError
        from posttrain.runtime.registry.oci_reference import InvalidReference, parse_reference

        try:
            fetched = fetch_recipe(parse_reference(reference))
        except InvalidReference as error:
            return str(error)
        except StepError as error:
            return f"{error}; {error.advice}" if error.advice else str(error)
        if fetched.folder not in self._artifacts:
            self._artifacts.append(fetched.folder)
        name = fetched.recipe.relative_to(fetched.folder).as_posix()

        def read(path: str) -> bytes | None:
            found = _resolve_file(fetched.folder, path)
            return None if found is None else found.read_bytes()

        return ExtendedArtifact(SourceFile(name, fetched.recipe.read_bytes()), read)

    def _resolve(self, name: str) -> Path | None:
        found = _resolve_file(self._folder, name)
        if found is not None or not self._artifacts or self.problem(name) is not None:
            return found
        inside = (_resolve_file(folder, name) for folder in self._artifacts)
        return next((path for path in inside if path is not None), None)


def _read_problem(folder: Path, name: str) -> str | None:
    """Why a file that exists next to the recipe is not read."""
    path = folder / name
    try:
        target = path.resolve()
        if not target.is_relative_to(folder.resolve()):
            how = "is" if path.is_symlink() else "is behind"
            return f"{how} a symbolic link to {target}, which is outside the recipe's folder"
        if path.is_symlink() and not target.exists():
            return f"is a symbolic link to {target}, which does not exist"
        if target.is_dir():
            return "is a folder, not a file"
        if target.is_file() and not os.access(target, os.R_OK):
            return "cannot be read: permission denied"
        return "is not a regular file" if target.exists() else None
    except RuntimeError:
        return "is a symbolic link to itself"
    except (OSError, ValueError):
        return None


def _resolve_file(folder: Path, name: str) -> Path | None:
    """A file next to the recipe. Links that lead out of the folder are not followed."""
    try:
        path = (folder / name).resolve()
        inside = path.is_relative_to(folder.resolve()) and path.is_file()
        return path if inside and os.access(path, os.R_OK) else None
    except (OSError, ValueError, RuntimeError):  # a name too long, with a null character, or a loop of links
        return None
