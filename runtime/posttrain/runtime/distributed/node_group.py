"""The nodes of one attempt of a step, and the files by which they agree, in the shared folder of the attempt.

beat-I.json       sign of life of the program of node I, renewed every second
candidates.json   addresses of node 0
reached-I.json    those of them that node I reaches
address.json      the one that all use
server-request.json   what rank 0 requires of a vLLM server on a node of its own
server.json       the address of that server
failure-R.json    the failure of rank R
end-I.json        how node I ended; of node 0, `ended.json` (runners/cluster/attempt_files.py)

A new attempt removes the folder. What still runs of an earlier one therefore finds no folder, and writes
nothing. On a full disk, the sign of life and the end of a node are written all the same: into space that the
node has from its start.
"""

import contextlib
import os
from pathlib import Path
from typing import TypeVar

from posttrain.runtime.store.document_files import read_document, write_document
from posttrain.runtime.store.reserved_files import reserve, write_reserved
from posttrain.spec.canonical_json import canonical_json
from posttrain.spec.document import Document
from posttrain.spec.document_json import DocumentError
from posttrain.spec.record import record
from posttrain.spec.step_records import NodeBeat, NodeEnd

DocumentT = TypeVar("DocumentT", bound=Document)
_BEAT_BYTES = 512


@record
class NodeGroup:
    """One node of an attempt. Node 0 runs rank 0, and its end is the end of the step."""

    index: int
    count: int
    folder: Path
    # The last nodes run a vLLM server, and no process of the training.
    servers: int = 0

    @property
    def others(self) -> range:
        """The nodes that node 0 judges."""
        return range(1, self.count)

    @property
    def trainers(self) -> range:
        """The nodes that run processes of the training."""
        return range(self.count - self.servers)

    @property
    def is_server(self) -> bool:
        return self.index not in self.trainers

    @property
    def is_void(self) -> bool:
        """Whether another attempt has begun, or the step was given up."""
        return not self.folder.is_dir()

    def write(self, name: str, document: Document) -> None:
        """Write a file of the attempt, unless it is void."""
        with contextlib.suppress(FileNotFoundError):
            write_document(self.folder / name, document, sync=False, create_folder=False)

    def beat(self, beat: NodeBeat) -> None:
        """Renew the sign of life in place, which takes no space after the first time."""
        with contextlib.suppress(FileNotFoundError):
            path = self.folder / f"beat-{self.index}.json"
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.pwrite(descriptor, canonical_json(beat).encode().ljust(_BEAT_BYTES), 0)
            finally:
                os.close(descriptor)

    def reserve_end(self) -> None:
        """Reserve space for the record of the end of this node."""
        reserve(self._end_file(self.index))

    def end(self, end: NodeEnd) -> None:
        """Record the end of this node."""
        with contextlib.suppress(FileNotFoundError):
            write_reserved(self._end_file(self.index), end, sync=False)

    def ended(self, index: int) -> NodeEnd | None:
        """The end of a node; None while it runs."""
        return self.read(NodeEnd, self._end_file(index).name)

    def _end_file(self, index: int) -> Path:
        return self.folder / f"end-{index}.json"

    def read(self, model: type[DocumentT], name: str) -> DocumentT | None:
        try:
            return read_document(model, self.folder / name)
        except DocumentError:
            return None
