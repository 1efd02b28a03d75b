"""Smoke tests of the external services that other tests depend on."""

import subprocess
import urllib.request

import pytest
from tests.container_output import output_of


@pytest.mark.docker
def test_a_container_runs_without_a_network(docker_engine, busybox_image):
    printed = output_of(docker_engine, busybox_image, ["/bin/busybox", "ls", "/sys/class/net"])
    assert printed.split() == ["lo"]


@pytest.mark.docker
def test_an_image_comes_back_by_digest(docker_engine, registry, busybox_image):
    name = f"{registry}/posttrain-test/busybox"
    docker_engine.images.get(busybox_image).tag(name, "pushed")
    docker_engine.images.push(name, "pushed")
    digest = manifest_digest(registry, "posttrain-test/busybox", "pushed")
    pulled = docker_engine.images.pull(f"{name}@{digest}")
    assert f"{name}@{digest}" in pulled.attrs["RepoDigests"]  # other tests tag it with other names too
    assert pulled.id == busybox_image


def manifest_digest(registry: str, name: str, tag: str) -> str:
    request = urllib.request.Request(
        f"http://{registry}/v2/{name}/manifests/{tag}",
        headers={"Accept": "application/vnd.docker.distribution.manifest.v2+json"},
        method="HEAD",
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["Docker-Content-Digest"]


@pytest.mark.browser
def test_a_browser_runs_the_script_of_a_page(chromium, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<p id=sum></p><script>sum.textContent = 40 + 2</script>")
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    quiet += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"]
    dumped = subprocess.run(
        [chromium, *quiet, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert '<p id="sum">42</p>' in dumped.stdout


def test_a_sandbox_hides_the_files_of_the_machine(bubblewrap, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("seen")
    read = f"cat {secret} || echo hidden"
    bound = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"]
    bound += ["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]
    seen = subprocess.run(
        [bubblewrap, *bound, "--unshare-all", "--die-with-parent", "/bin/sh", "-c", read],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert seen.stdout == "hidden\n"
