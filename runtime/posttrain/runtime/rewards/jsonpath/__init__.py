"""JSONPath (RFC 9535), with limits on time and depth."""
