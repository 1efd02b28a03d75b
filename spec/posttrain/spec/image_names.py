"""Names of container images, with and without a tag."""

import re

# An image with a tag, or without one, which means the tag `latest`.
_NAME_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
IMAGE_TAG_PATTERN = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_NAME_COMPONENT}(?:/{_NAME_COMPONENT})*(?::[A-Za-z0-9_][\w.-]{{0,127}})?"
)


def strip_image_tag(image: str) -> str:
    """The name of an image without its tag. A colon before the last slash separates a registry's port."""
    start, slash, last = image.rpartition("/")
    return f"{start}{slash}{last.partition(':')[0]}"
