"""Installs packages of the npm registry into a temporary folder."""

import shutil
import subprocess
from pathlib import Path

from tests.conftest import require_service


def install_npm_package(folder: Path, name: str, version: str) -> Path:
    """Install a package and return its folder. Skip the test without npm or a registry."""
    npm = require_service(
        "npm", shutil.which("npm"), "install Node.js with npm (Debian: apt-get install npm)"
    )
    require_service("node", shutil.which("node"), "install Node.js (Debian: apt-get install nodejs)")
    quiet = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error"]
    ended = subprocess.run(
        [npm, "install", *quiet, "--prefix", folder, f"{name}@{version}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = folder / "node_modules" / name
    installed = found if ended.returncode == 0 and found.is_dir() else None
    return require_service(
        f"the npm package {name}", installed, f"a registry that serves it; npm said: {ended.stderr[-400:]}"
    )
