"""JSONPath (RFC 9535), with limits on work and depth."""
