"""Speed, always as a ratio to a limit measured in the same run: `python -m bench`."""
