"""The part of the API that the audit brings to `import entrenous`."""
