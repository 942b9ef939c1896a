"""The coding agent: a model and its tools in a loop, on a session that keeps every message of it."""
