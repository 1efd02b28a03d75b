"""JSONPath (RFC 9535), with bounds on time and depth."""
