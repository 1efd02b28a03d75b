"""A client of OCI registries: references, authentication, manifests, blobs and referrers."""
