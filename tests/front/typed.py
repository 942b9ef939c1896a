"""An answer that somebody has typed already, where a program reads one."""

import io
import os


class Typed(io.StringIO):
    """stdin, with a descriptor that gives these words and then ends; a terminal, if it is said to be one."""

    def __init__(self, text: str, *, is_terminal: bool = False) -> None:
        super().__init__(text)
        self._is_terminal = is_terminal
        self._read_end = -1

    def isatty(self) -> bool:
        return self._is_terminal

    def fileno(self) -> int:
        if self._read_end < 0:
            self._read_end, written_to = os.pipe()
            os.write(written_to, self.getvalue().encode())
            os.close(written_to)
        return self._read_end

    def close(self) -> None:
        if self._read_end >= 0:
            os.close(self._read_end)
            self._read_end = -1
        super().close()
