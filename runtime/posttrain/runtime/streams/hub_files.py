"""The files of a dataset on the Hub: a list of them, and downloads that are checked against it."""

import errno
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from posttrain.runtime.errors import StepError
from posttrain.runtime.sources.hub_errors import request_error, unknown_dataset, unreachable_hub
from posttrain.runtime.streams.row_stream import RowStream, StreamFile

_ADDRESS = re.compile(r"hf://datasets/(?P<name>[^@]+)@(?P<commit>[^/]+)/(?P<path>.+)")
# The readers, and the ends of the names of their files. The library `datasets` reads more compressions, and
# gives all configurations of a dataset the reader of most files.
_READERS = {
    "parquet": (".parquet",),
    "json": tuple(
        f"{kind}{packed}" for kind in (".jsonl", ".json", ".ndjson") for packed in ("", ".gz", ".zst")
    ),
}
_PATHS_PER_REQUEST = 500
_ATTEMPTS = 6
_BLOCK = 1 << 20
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class HubFiles:
    """The files of a split, in order, at a commit."""

    commit: str
    reader: Literal["parquet", "json"]
    files: Sequence[StreamFile]


def list_files(name: str, config: str | None, split: str, revision: str) -> HubFiles:
    from datasets import load_dataset_builder

    try:
        builder: Any = load_dataset_builder(name, config, revision=revision)
    except (ConnectionError, TimeoutError) as error:
        raise unreachable_hub(error) from None
    except (ValueError, OSError) as error:
        raise unknown_dataset(name, error) from None
    if builder.name not in _READERS or getattr(builder.config, "field", None) is not None:
        raise StepError(
            f"`{name}` has {builder.name} files that cannot be streamed: only Parquet and JSON Lines can",
            "the Hub keeps a Parquet copy of most datasets: set `revision: refs/convert/parquet`",
        )
    files = builder.config.data_files or {}
    if split not in files:
        raise StepError(
            f"`{name}` has no split `{split}`; its splits are {', '.join(map(str, files))}", "correct `split`"
        )
    places = [_ADDRESS.fullmatch(str(address)) for address in files[split]]
    paths = [place["path"] for place in places if place is not None]
    if not places:
        raise StepError(f"the split `{split}` of `{name}` has no files", "correct `split`")
    if len(paths) < len(places) or places[0] is None:
        raise StepError(f"`{name}` has files outside of its repository", "stream another dataset")
    others = [path for path in paths if not path.lower().endswith(_READERS[builder.name])]
    if others:
        raise StepError(
            f"`{others[0]}` of `{name}` cannot be streamed: only Parquet, and JSON Lines with .gz, .zst or"
            " without compression can",
            "set `revision: refs/convert/parquet`, or remove `streaming: true`",
        )
    commit = unquote(places[0]["commit"])
    return HubFiles(commit, builder.name, list(_describe_files(name, commit, paths)))


def _describe_files(name: str, commit: str, paths: Sequence[str]) -> Iterator[StreamFile]:
    """The size and checksum of each file."""
    from httpx import HTTPError
    from huggingface_hub import HfApi

    api = HfApi()
    found: dict[str, Any] = {}
    for start in range(0, len(paths), _PATHS_PER_REQUEST):
        some = list(paths[start : start + _PATHS_PER_REQUEST])
        try:
            for file in api.get_paths_info(name, some, revision=commit, repo_type="dataset"):
                found[file.path] = file
        except (HTTPError, OSError, ValueError) as error:
            raise request_error(f"the dataset `{name}`", error) from None
    for path in paths:
        file = found.get(path)
        if file is None:
            raise StepError(f"the Hub does not describe the file `{path}` of `{name}`", "try again later")
        checksum = f"sha256:{file.lfs.sha256}" if file.lfs is not None else f"git:{file.blob_id}"
        yield StreamFile(path=path, size=file.size, checksum=checksum)


def download_file(stream: RowStream, file: StreamFile, folder: Path) -> Path:
    """Download a file into a folder, and check it. An earlier download that was cut off continues."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _download_once(stream, file, folder)
        except StepError as error:
            if not error.retriable or attempt == _ATTEMPTS:
                raise
        time.sleep(2**attempt)
    raise AssertionError("the last attempt returns or raises")


def _download_once(stream: RowStream, file: StreamFile, folder: Path) -> Path:
    from httpx import HTTPError
    from huggingface_hub import hf_hub_download

    try:
        place = hf_hub_download(
            stream.repository,
            file.path,
            repo_type="dataset",
            revision=stream.commit,
            local_dir=folder,
        )
    except (HTTPError, OSError) as error:
        if getattr(error, "errno", None) in _FULL_DISK:
            raise
        raise request_error(f"the file `{file.path}` of `{stream.repository}`", error) from None
    except ValueError as error:  # the name of a file outside of the folder
        raise StepError(f"cannot download `{file.path}`: {error}", "stream another dataset") from None
    path = Path(place)
    if path.stat().st_size != file.size or _checksum(path, file.checksum) != file.checksum:
        path.unlink()
        message = f"the download of `{file.path}` does not have its checksum on the Hub"
        raise StepError(message, "try again later", retriable=True)
    return path


def _checksum(path: Path, like: str) -> str:
    """The checksum of a file, of the kind of another one."""
    kind = like.partition(":")[0]
    found = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as content:
        while block := content.read(_BLOCK):
            found.update(block)
    return f"{kind}:{found.hexdigest()}"
