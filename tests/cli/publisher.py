"""A publisher of signed products: a recipe, its run, a key, and a repository of a real registry."""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from tests.ssh_keys import allow, make_key

from posttrain.cli.main import main
from posttrain.runtime.provenance.dsse_envelope import Envelope, parse_envelope
from posttrain.runtime.provenance.envelope_referrers import ENVELOPE_TYPE, attach_envelope, fetch_envelopes
from posttrain.runtime.provenance.ssh_keygen import sign_envelope
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient

RECIPE = """\
recipe: 1
name: programs
stages:
  count: {script: [sh, -c, "wc -w < words.txt > $OUT/count"], files: [words.txt]}
  double:
    script: [sh, -c, "echo $(( 2 * $(cat $INPUT_NUMBER/count) )) > $OUT/count"]
    inputs: {number: count}
profiles:
  long: {stages: {double: {script: [sh, -c, "echo long > $OUT/count"]}}}
"""


class Publisher:
    """A folder with a recipe, a home with its run, and a repository of the registry."""

    def __init__(self, folder: Path, registry: str) -> None:
        self.folder, self.home = folder, folder / "home"
        self.repository = f"oci://{registry}/test/{uuid.uuid4().hex}"
        self.recipe = folder / "recipe"
        self.recipe.mkdir()
        (self.recipe / "recipe.yaml").write_text(RECIPE)
        (self.recipe / "words.txt").write_text("one two three\n")
        self.key = make_key(folder, "key")
        self.allowed = allow(folder, ("me@x", 'namespaces="posttrain"', self.key))

    def run(self, *options: str) -> None:
        self.lock()
        done = self.recipe_command("run", str(self.recipe), "--locked", "--home", str(self.home), *options)
        assert done.exit_code == 0, done.output

    def lock(self) -> None:
        done = self.recipe_command("lock", str(self.recipe))
        assert done.exit_code == 0, done.output

    def push(self, what: str) -> str:
        done = self.recipe_command("push", what, f"{self.repository}:1", "--home", str(self.home))
        assert done.exit_code == 0, done.output
        return done.stdout.split()[-1]

    def sign(self, artifact: str, *options: str, key: Path | None = None) -> Result:
        arguments = ["--key", str(key or self.key), "--home", str(self.home)]
        return self.recipe_command("sign", artifact, *arguments, *options)

    def signed(self, artifact: str, *options: str) -> str:
        done = self.sign(artifact, *options)
        assert done.exit_code == 0, done.output
        return done.stdout.strip()

    def verify(self, artifact: str, *options: str) -> Result:
        return self.recipe_command("verify", artifact, "--allowed-signers", str(self.allowed), *options)

    def recipe_command(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, list(arguments))


def read_statement(artifact: str) -> dict[str, Any]:
    (data,) = read_envelopes(artifact)
    return json.loads(parse_envelope(data).payload)


def read_envelopes(artifact: str) -> list[bytes]:
    reference = parse_reference(artifact)
    assert reference.digest is not None
    with RegistryClient(reference) as client:
        return list(fetch_envelopes(client, reference.digest, ENVELOPE_TYPE))


def attach(artifact: str, envelope: Envelope) -> None:
    with RegistryClient(parse_reference(artifact)) as client:
        subject = client.get_manifest(client.reference.version).descriptor
        attach_envelope(client, subject, envelope.to_bytes(), ENVELOPE_TYPE)


def sign_changed(artifact: str, change: Mapping[str, Any], key: Path) -> None:
    """Attach the statement with other values, signed by a key. A name is a path with slashes."""
    statement = read_statement(artifact)
    for path, value in change.items():
        *parents, last = path.split("/")
        inner: Any = statement
        for part in parents:
            inner = inner[int(part) if part.isdigit() else part]
        inner[last] = value(inner[last]) if callable(value) else value
    payload = json.dumps(statement).encode()
    attach(artifact, sign_envelope(Envelope(payload=payload, signatures=()), key))
