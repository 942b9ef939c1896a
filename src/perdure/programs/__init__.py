"""The programs: each one file, each the engine with one face. None imports another."""
