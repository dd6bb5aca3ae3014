"""What every report can be written as: text, and a page of HTML."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ebm._files import atomic_write, require_writable
from ebm._summary import Printed
from ebm.report._blocks import Section, as_text


class Written(Printed):
    """A report of which ``_in_words`` says each section."""

    def _in_words(self) -> Iterator[Section]:
        """The sections of the text and of the page."""
        raise NotImplementedError

    def __str__(self) -> str:
        return as_text(self._in_words())

    def save_report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "",
        note: str = "",
        overwrite: bool = False,
    ) -> None:
        """Write the report as one HTML file that needs no network: text, figures, sorted tables.

        It holds the numbers of the text, the panels of the figure as vector graphics, tables that
        a click sorts, the network of couplings and, up to 4096 states such as those of 12
        two-valued units, averages of the model against β, its energy being multiplied by β.

        Parameters
        ----------
        path : path-like
            The file; names of units are written as text, whatever they contain.
        title : str, optional
            Heading, such as the name of the data; by default the number of rows and units.
        note : str, optional
            A line at the foot, such as the command that was run.
        overwrite : bool, default False
            Replace an existing file.

        Raises
        ------
        FileExistsError
            If the file exists, without ``overwrite``.
        MissingExtraError
            If matplotlib is not installed, which draws the figures.

        Examples
        --------
        >>> import ebm, pathlib, tempfile
        >>> report = ebm.analyze([[0, 1], [1, 1], [0, 0], [1, 0], [1, 1]])
        >>> page = pathlib.Path(tempfile.mkdtemp()) / "report.html"
        >>> report.save_report(page, title="Two switches")
        >>> "<h1>Two switches</h1>" in page.read_text("utf-8")
        True
        """
        from ebm.report._html.page import page_of

        require_writable(Path(path), overwrite=overwrite)
        text = page_of(self, self._in_words(), title=title, note=note)
        with atomic_write(path, overwrite=overwrite) as file:
            file.write(text.encode())
