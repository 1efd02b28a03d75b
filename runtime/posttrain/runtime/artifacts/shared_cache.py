"""A repository of a registry as a shared cache of products.

A product has the tag `key-KEY-LAUNCH`, so a step finds only products of its own launch: an equal key does not
mean equal bytes. The tag `key-KEY` names the newest product of any launch, to report that there is one.
"""

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.runtime import atomic_io
from posttrain.runtime.artifacts.packed_artifact import push_artifact
from posttrain.runtime.artifacts.product_artifact import (
    CACHED_RECORDS,
    ProductContents,
    check_product,
    pack_product,
    parse_product_artifact,
)
from posttrain.runtime.registry.oci_manifest import Descriptor
from posttrain.runtime.registry.oci_reference import Reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.registry.registry_errors import ContentError, RegistryError
from posttrain.runtime.report.number_format import format_size
from posttrain.runtime.store.file_locks import try_lock
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.launch_record import launch_difference, launch_digest, launch_record
from posttrain.runtime.store.products import Product
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import Step
    from posttrain.spec.product_manifest import Manifest

_ADVICE = "the step runs here instead"


@record(kw_only=True)
class CachedProduct:
    """A product in the cache that the home lacks."""

    step: "Step"
    contents: ProductContents
    manifest: "Manifest"
    # Of the artifact.
    digest: str

    @property
    def layers(self) -> list[tuple[str, Descriptor]]:
        """The layers with their paths in a folder of the store."""
        folders = (("files", self.contents.files), ("record", self.contents.records))
        return [(f"{folder}/{name}", layer) for folder, layers in folders for name, layer in layers.items()]

    @property
    def size(self) -> int:
        return sum(layer.size for _, layer in self.layers)


# Gets the step, how many bytes of its product have been fetched, and how many it has.
FetchListener = Callable[["Step", int, int], None]


class SharedCache:
    """Fetches products before a run, and pushes those that it makes.

    A failure is noted, and never fails a run: a step that is not fetched runs.
    """

    def __init__(
        self,
        home: Home,
        reference: Reference,
        *,
        writes: bool,
        note: Callable[[str], None],
        on_fetch: FetchListener = lambda step, done, total: None,
    ) -> None:
        self._home = home
        self._reference = reference
        self._writes = writes
        self._note = note
        self._on_fetch = on_fetch
        self._fetched: set[str] = set()
        self._uploads: list[Future[None]] = []
        self._problems: list[str] = []  # of uploads: a run notes only from its own thread
        self._uploader = ThreadPoolExecutor(1, thread_name_prefix="cache-upload")

    def find(self, steps: Iterable["Step"]) -> list[CachedProduct]:
        """The products of steps that the store does not have and the cache has. Writes nothing."""
        found: list[CachedProduct] = []
        with RegistryClient(self._reference) as client:
            for step in steps:
                if not step.pinned or self._home.store.find(step.key) is not None:
                    continue
                try:
                    product = self._find_step(client, step)
                except ContentError as error:
                    self._skip(step, str(error))
                except RegistryError as error:
                    self._stop(error)
                    break
                else:
                    found += [] if product is None else [product]
        return found

    def fetch(self, products: Iterable[CachedProduct]) -> bool:
        """Commit products to the store. Returns whether the store has all of them now."""
        wanted = list(products)
        self._home.prepare()
        with RegistryClient(self._reference) as client:
            for product in wanted:
                try:
                    self._fetch_product(client, product)
                except ContentError as error:
                    self._skip(product.step, str(error))
                except OSError as error:
                    cause = f"{error.strerror} ({error.filename})"
                    self._note(
                        f"{product.step.id}: the product in {self._reference} cannot be stored: {cause}"
                    )
                except RegistryError as error:
                    self._stop(error)
                    break
        if self._fetched:
            self._note(f"{len(self._fetched)} products were fetched from {self._reference}")
        return all(self._home.store.find(product.step.key) is not None for product in wanted)

    def _skip(self, step: "Step", cause: str) -> None:
        self._note(f"{step.id}: the product in {self._reference} is not used: {cause}")

    def _stop(self, error: RegistryError) -> None:
        self._note(f"the cache is not used: {error}; {error.advice}")
        self._writes = False

    def push(self, step: "Step", product: Product) -> None:
        """Push the product of a step in the background. What others cannot use stays here."""
        if self._writes and step.pinned and product.key not in self._fetched and not product.manifest.adopted:
            self._uploads.append(self._uploader.submit(self._push, step, product))

    def close(self, *, wait: bool) -> None:
        """Wait for the uploads, or drop those that have not started."""
        pending = sum(not upload.done() for upload in self._uploads)
        if pending and wait:
            self._note(f"pushing {pending} products to {self._reference}")
        self._uploader.shutdown(wait=True, cancel_futures=not wait)
        for problem in self._problems:
            self._note(problem)

    def _find_step(self, client: RegistryClient, step: "Step") -> CachedProduct | None:
        found = client.find_manifest(_tag(step.key, launch_digest(launch_record(step))))
        if found is None:
            self._report_other_launch(client, step)
            return None
        contents = parse_product_artifact(found.data)
        manifest = check_product(contents, client.read_blob(contents.manifest))
        _check_step(manifest, step)
        return CachedProduct(step=step, contents=contents, manifest=manifest, digest=found.digest)

    def _fetch_product(self, client: RegistryClient, product: CachedProduct) -> None:
        key = product.step.key
        lock = try_lock(self._home.step_lock(key))
        if lock is None:
            return  # another client makes it
        try:
            if self._home.store.find(key) is None:
                self._commit(client, product)
                self._fetched.add(key)
        finally:
            lock.discard()

    def _report_other_launch(self, client: RegistryClient, step: "Step") -> None:
        found = client.find_manifest(_tag(step.key))
        if found is None:
            return
        contents = parse_product_artifact(found.data)
        manifest = check_product(contents, client.read_blob(contents.manifest))
        difference = launch_difference(manifest.launch, step)
        if difference:
            self._note(f"{step.id}: the product in {self._reference} is not used: {difference}")

    def _commit(self, client: RegistryClient, product: CachedProduct) -> None:
        """Download a product and commit it. An interrupted download of the same artifact continues in the
        next run: another one can have other files."""
        work = self._home.workdir(product.manifest.key)
        staged = work / f"fetched-{product.digest.removeprefix('sha256:')}"
        for folder in ("files", "record"):
            (staged / folder).mkdir(parents=True, exist_ok=True)
        _check_space(product, staged)
        done = 0
        for path, layer in product.layers:
            before = done

            def advance(size: int, before: int = before) -> None:
                self._on_fetch(product.step, before + size, product.size)

            client.download_blob(layer, staged / path, advance)
            done += layer.size
        atomic_io.sync_tree(staged / "files")
        self._home.store.commit(product.manifest, staged / "files", staged / "record")
        shutil.rmtree(work, ignore_errors=True)

    def _push(self, step: "Step", product: Product) -> None:
        if not self._writes:
            return
        exact = _tag(product.key, launch_digest(product.manifest.launch))
        try:
            with RegistryClient(self._reference) as client:
                if client.find_manifest(exact) is None:
                    push_artifact(client, pack_product(product, CACHED_RECORDS), [exact, _tag(product.key)])
        except RegistryError as error:
            self._writes = not error.is_denied and self._writes
            self._problems.append(f"{step.id} was not pushed to the cache: {error}; {error.advice}")
        except OSError as error:
            self._problems.append(f"{step.id} was not pushed to the cache: {error.strerror}")


def _check_space(product: CachedProduct, staged: Path) -> None:
    """Raise `ContentError` if the disk has no room for the rest of a product: its publisher says how large
    it is."""
    existing = sum(path.stat().st_size for _, path in atomic_io.iter_files(staged))
    free = shutil.disk_usage(staged).free
    if product.size - existing > free:
        cause = f"it has {format_size(product.size)}, and {format_size(free)} are free on the disk"
        raise ContentError(cause, _ADVICE)


def _tag(key: str, launch: str = "") -> str:
    return f"key-{key}-{launch}" if launch else f"key-{key}"


def _check_step(manifest: "Manifest", step: "Step") -> None:
    """Raise `ContentError` unless a product is what the step would make with its launch."""
    problems = {
        "it has another key": manifest.key != step.key,
        "it is from another step": manifest.kind != step.kind or manifest.key_parts != step.key_parts,
        "it has another launch": manifest.launch != launch_record(step),
        "it was adopted from another environment": manifest.adopted is not None,
    }
    for problem, found in problems.items():
        if found:
            raise ContentError(problem, _ADVICE)
