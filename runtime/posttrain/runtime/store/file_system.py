"""What the file system of a folder guarantees: a network file system differs from a local one."""

import os
from pathlib import Path

from posttrain.spec.record import record

_NETWORK_TYPES = frozenset(
    [*("nfs", "nfs3", "nfs4", "lustre", "cifs", "smb3", "beegfs", "gpfs", "ceph", "afs"), "9p", "virtiofs"]
)


@record
class FileSystem:
    """A mounted file system: its type, such as nfs4, and its options."""

    type: str
    options: frozenset[str] = frozenset()

    @property
    def is_network(self) -> bool:
        """Whether other machines can have it mounted. Any file system of FUSE counts."""
        return self.type in _NETWORK_TYPES or self.type.partition(".")[0] in ("fuse", "fuseblk")

    @property
    def shares_locks(self) -> bool:
        """Whether a lock by `flock` holds on all machines, as far as the type and the options say."""
        match self.type:
            case "lustre":  # with `localflock`, a lock holds on one machine; without an option, none works
                return "flock" in self.options
            case "nfs" | "nfs3" | "nfs4":
                return not self.options & {"nolock", "local_lock=all", "local_lock=flock"}
            case "cifs" | "smb3":
                return "nobrl" not in self.options
            case "gpfs" | "ceph":
                return True
            case _:
                return not self.is_network


def file_system_of(folder: Path) -> FileSystem:
    """The file system of an existing folder; a local one if the kernel does not say."""
    try:
        device = folder.stat().st_dev
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return FileSystem("unknown")
    number = f"{os.major(device)}:{os.minor(device)}"
    found = next((line for line in reversed(lines) if line.split()[2] == number), None)
    return FileSystem("unknown") if found is None else parse_mount(found)


def parse_mount(line: str) -> FileSystem:
    """A line of /proc/self/mountinfo: ID PARENT DEVICE ROOT POINT OPTIONS [TAGS] - TYPE SOURCE OPTIONS."""
    before, _, after = line.partition(" - ")
    type, _, rest = after.partition(" ")
    options = f"{before.split()[5]},{rest.rpartition(' ')[2]}"
    return FileSystem(type, frozenset(options.split(",")))
