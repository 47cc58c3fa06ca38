"""Text that came from a model or a file, made safe to print: nothing in it commands the terminal or turns the line."""

import re
from typing import TextIO

# Control characters but tab and line feed (ESC starts a terminal's commands, CR overwrites the line), the marks that
# turn the direction of what follows, the separators that some viewers break lines at, halves of surrogate pairs.
_HIDDEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\\ud800-\\udfff]")


def visible(text: str) -> str:
    r"""The text with each hidden character written out (`\u001b`); `\r\n` becomes `\n`."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


class VisibleOutput:
    """A stream of text that passes on what is written to it, made `visible`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text; returns its length."""
        self._stream.write(visible(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream behind."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The stream's file."""
        return self._stream.fileno()
