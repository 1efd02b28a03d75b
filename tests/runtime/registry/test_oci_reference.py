"""References of artifacts and of images."""

import pytest

from posttrain.runtime.registry.oci_reference import (
    InvalidReference,
    image_reference,
    is_loopback,
    parse_reference,
)

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    "text",
    [
        "oci://host/name",
        "oci://host:5000/a/b-c/d__e:v1.0",
        f"oci://host/name@{DIGEST}",
        f"oci://[::1]:5000/name:tag@{DIGEST}",
    ],
)
def test_a_reference_is_printed_as_it_was_written(text: str) -> None:
    assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("http://host/name", "does not start with"),
        ("oci://host", "not the address of a registry"),
        ("oci:///name", "not the address of a registry"),
        ("oci://host:99999/name", "not the address of a registry"),
        ("oci://ho st/name", "not the address of a registry"),
        ("oci://user:secret@host/name", "contains credentials"),
        ("oci://host/Name", "not the name of a repository"),
        ("oci://host/a//b", "not the name of a repository"),
        ("oci://host/../etc", "not the name of a repository"),
        ("oci://host/" + "a" * 300, "not the name of a repository"),
        ("oci://host/name:" + "t" * 129, "is not a tag"),
        ("oci://host/name:-t", "is not a tag"),
        ("oci://host/name:", "is not a tag"),
        ("oci://host/name@sha256:12", "is not a digest"),
        ("oci://host/name@md5:" + "0" * 32, "is not a digest"),
    ],
)
def test_an_invalid_reference_says_which_part_is_wrong(text: str, cause: str) -> None:
    with pytest.raises(InvalidReference, match=cause) as refused:
        parse_reference(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("debian:12", "oci://docker.io/library/debian:12"),
        ("org/image", "oci://docker.io/org/image"),
        ("localhost/image:t", "oci://localhost/image:t"),
        (f"ghcr.io/org/image@{DIGEST}", f"oci://ghcr.io/org/image@{DIGEST}"),
    ],
)
def test_images_are_named_by_the_rules_of_docker(image: str, expected: str) -> None:
    assert str(image_reference(image)) == expected


def test_plain_http_is_for_loopback_addresses() -> None:
    assert all(map(is_loopback, ("localhost", "localhost:5000", "127.0.0.1:80", "[::1]:5000", "127.8.8.8")))
    assert not any(map(is_loopback, ("localhost.evil.org", "10.0.0.1:5000", "host:127")))
