"""Named arrays, as they look between processes."""
