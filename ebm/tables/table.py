"""Reading a file: columns chosen, incomplete rows dropped, refused or kept, values thresholded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ebm._files import as_path
from ebm._types import Flags
from ebm.errors import CodingError, EbmError, MissingValueError, NamesError, require_extra
from ebm.tables._cells import Reading
from ebm.tables._columns import choose_columns
from ebm.tables._delimited_text import read_text
from ebm.tables._foreign_files import refuse_foreign_suffix
from ebm.tables._layouts import long_doubt, pivoted, refuse_long, transposed
from ebm.tables._numpy_files import read_numpy_file
from ebm.tables._other_programs import READERS, read_matlab
from ebm.tables._raw_table import RawTable
from ebm.tables._workbooks import sheet_as_text
from ebm.tables._yes_and_no import Answers
from ebm.tables.binarize import Threshold, codes_doubt, cut

__all__ = ["Table", "read_labelled_table", "read_table"]

_TEXT = (".csv", ".tsv", ".txt")
_ARRAYS = (".npy", ".npz")
_BOOKS = (".xlsx", ".xlsm")
_MAX_SHOWN = 6
#: Columns from which on a table should have as many rows.
_MANY_COLUMNS = 32


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers with named columns.

    Parameters
    ----------
    states : ndarray, shape (n_rows, n_columns)
        Values, int8 where all are integers of that range and float64 otherwise; read-only. NaN
        where a cell is missing and its row was kept.
    names : tuple of str, (n_columns,)
        Names of the columns.
    n_rows_read : int
        Number of data rows in the file.
    n_rows_dropped : int
        Number of rows left out because of a missing value in a chosen column.
    notes : tuple of str
        Sentences on how the file was read and what was changed.
    doubt : str
        Reasons why this may not be the intended table, such as rows that may be units; empty if
        there are none.

    Examples
    --------
    >>> import pathlib, tempfile, ebm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "draws.csv")
    >>> ebm.tables.write_table(path, [[0, 1], [1, 1]], ["a", "b"])
    >>> table = ebm.read_table(path)
    >>> table.names, table.states.mean(axis=0)
    (('a', 'b'), array([0.5, 1. ]))
    """

    states: NDArray[Any]
    names: tuple[str, ...]
    n_rows_read: int
    n_rows_dropped: int = 0
    notes: tuple[str, ...] = ()
    doubt: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names, as a data frame holds them: a table serves wherever rows are accepted."""
        return self.names

    def to_numpy(self) -> NDArray[Any]:
        """The states, as of a data frame."""
        return self.states

    def to_frame(self) -> Any:
        """The rows as a pandas frame, a column for each name; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Of the type of ``states``.
        """
        return require_extra("pandas", "data").DataFrame(self.states, columns=list(self.names))


def read_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str | int] | None = None,
    exclude: Sequence[str | int] | None = None,
    missing: str | float | Sequence[str | float] = (),
    drop_missing: bool | Literal["never"] = False,
    threshold: Threshold | None = None,
    yes: str | Sequence[str] | None = None,
    no: str | Sequence[str] | None = None,
    header: bool | None = None,
    layout: str | Sequence[str] = "wide",
    part: str | int | None = None,
) -> Table:
    r"""Read a data file into rows of numbers with named columns.

    The coding of the values is neither checked nor guessed; state spaces check it. A file that can
    be read in two ways is refused, and the error names the argument that decides.

    Parameters
    ----------
    path : str or path-like
        File of type ``.csv``, ``.tsv`` or ``.txt``, also gzipped (``.csv.gz``), ``.npy``, ``.npz``
        or ``.mat``; with the extra ``files`` also ``.xlsx``, ``.sav``, ``.parquet``, ``.feather``
        or ``.arrow``. What a file declares as missing is missing.
    columns : sequence of str or int, optional
        Columns to read, by name or, where no column has that name, by position from 0; ``"3-7"``
        stands for the positions 3 to 7. All by default.
    exclude : sequence of str or int, optional
        Columns to leave out of ``columns``, specified in the same way.
    missing : str, float or sequence of these
        Values that mean "no answer", such as ``[9, 99]``, besides empty cells, ``NA`` and ``.``.
    drop_missing : bool or "never", default False
        Leave out rows with a missing value in the chosen columns; a note gives their number. By
        default a missing value is an error; with ``"never"`` all rows stay, their missing cells
        NaN, as :meth:`ebm.IncompleteEnsemble.from_data` takes them.
    threshold : float, str, sequence or mapping, optional
        Replace every value by 1 if it is greater than the threshold and by 0 otherwise. A
        number, ``"mean"`` or ``"median"`` of each column, one of these for each column, or a
        mapping from names of columns, which leaves the other columns unchanged.
    yes, no : str or sequence of str, optional
        Words that are read as 1 and as 0, such as ``yes="ja"`` and ``no=["nein", "n"]``, both or
        neither; upper and lower case are the same. Words that are numbers, such as ``yes="1"`` and
        ``no="2"``, replace numbers of all chosen columns. A column with other words is refused.
    header : bool, optional
        Whether the first line of a text file holds names; by default inferred from the file.
    layout : "wide", "transposed" or sequence of str, default "wide"
        Rows are samples (``"wide"``) or units (``"transposed"``). Three names mean one value in
        each row: the columns of the sample, the unit and the value.
    part : str or int, optional
        The sheet of a workbook, or the array of a ``.npz`` or ``.mat`` file, by name or number from
        0; by default the only one, or the array ``X`` or ``states``.

    Returns
    -------
    Table
        States, shape (n_rows, n_columns), and names.

    Raises
    ------
    EbmError
        If ``layout`` or ``drop_missing`` has another value, or ``missing`` is one string with
        several codes. Files that cannot be read raise subclasses of this error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> n_written = path.write_text("a,b\n0,1\n1,1\n")
    >>> read_table(path, columns=["b"]).states.tolist()
    [[1], [1]]
    """
    settings = {
        "columns": columns,
        "exclude": exclude,
        "missing": missing,
        "drop_missing": drop_missing,
        "threshold": threshold,
        "yes": yes,
        "no": no,
        "header": header,
        "layout": layout,
        "part": part,
    }
    return _table(as_path(path), None, **settings)[0]


def read_labelled_table(
    path: str | os.PathLike[str], by: str | int, **reading: Any
) -> tuple[Table, NDArray[Any]]:
    r"""Read a data file in which one column says to which group each row belongs.

    Parameters
    ----------
    path : str or path-like
        File, as that of :func:`read_table`.
    by : str or int
        The column of labels, text or numbers, by name or position. It is none of the columns of
        the table, and an incomplete row is one without a label, too.
    **reading
        Settings of :func:`read_table`.

    Returns
    -------
    table : Table
        The other columns, or those of ``columns=``.
    labels : ndarray, (n_rows,)
        The label of each row, as ``by`` of :func:`ebm.compare_groups` takes them.

    Raises
    ------
    NamesError
        If ``by`` is no column, or more than one.
    EbmError
        As by :func:`read_table`.

    Examples
    --------
    >>> import pathlib, tempfile, ebm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> n_written = path.write_text("a,b,party\n0,1,left\n1,1,right\n,0,left\n")
    >>> table, party = ebm.tables.read_labelled_table(path, "party", drop_missing=True)
    >>> table.names, table.states.tolist(), party.tolist()
    (('a', 'b'), [[0, 1], [1, 1]], ['left', 'right'])
    """
    return _table(as_path(path), by, **reading)


def _table(
    path: Path,
    by: str | int | None,
    *,
    columns: Any = None,
    exclude: Any = None,
    missing: Any = (),
    drop_missing: Any = False,
    threshold: Any = None,
    yes: Any = None,
    no: Any = None,
    header: Any = None,
    layout: Any = "wide",
    part: Any = None,
) -> tuple[Table, NDArray[Any]]:
    """The table, and the labels of its rows in the column ``by``."""
    words = ("wide", "transposed")
    if not (layout in words if isinstance(layout, str) else isinstance(layout, Iterable)):
        raise EbmError(
            f"layout must be 'wide', 'transposed' or the names of three columns, got {layout!r}"
        )
    if drop_missing not in (False, True, "never"):
        raise EbmError(f"drop_missing must be True, False or 'never', got {drop_missing!r}")
    answers = Answers.of(yes, no)
    is_whole = columns is None and exclude is None
    # Numerical codes apply to the chosen columns only: a respondent may have the number 99.
    codes = {str(code): Reading()(str(code)) for code in _listed_codes(missing)}
    texts = frozenset(code.strip().lower() for code, number in codes.items() if number is None)
    reading = Reading(texts)
    raw = _read(path, header, reading, layout == "transposed", part)
    if layout == "transposed":
        is_named = raw.row_names is None and 0 in raw.texts
        raw = transposed(answers.applied(raw, range(is_named, len(raw.names)), texts), path)
    elif not isinstance(layout, str):
        value = choose_columns(raw.names, list(layout))[-1:]
        raw = pivoted(answers.applied(raw, value, texts), layout, path)
    elif is_whole:
        refuse_long(raw, path)
    labels, place = _labels(raw, by, reading)
    if place is not None and place not in raw.words and layout == "wide" and _is_logical(labels):
        # Words for true and false stay words in labels.
        literal = replace(reading, logical=False)
        labels, _ = _labels(_read(path, header, literal, False, part), by, literal)
    chosen = [index for index in choose_columns(raw.names, columns, exclude) if index != place]
    if not chosen:
        raise NamesError(f"no column beside {by!r} is left, wanted at least one")
    names = tuple(raw.names[index] for index in chosen)
    raw = answers.applied(raw, chosen if layout == "wide" else (), texts)
    values = raw.numbers(chosen)
    coded = np.isin(values, [number for number in codes.values() if number is not None])
    values = np.where(coded, np.nan, values) if coded.any() else values
    if place is None:
        values = _complete_rows(values, names, drop_missing)
    else:
        # Beside the rows go their numbers, NaN without a label.
        without = np.array([label != label or label is None for label in labels])
        numbers = np.where(without, np.nan, np.arange(len(values)))
        whole = np.column_stack([values, numbers])
        whole = _complete_rows(whole, (*names, raw.names[place]), drop_missing)
        if drop_missing != "never":
            labels = labels[whole[:, -1].astype(np.intp)]
        values = whole[:, :-1]
    _require_finite(values, names)
    n_dropped = raw.n_rows - len(values)
    notes = raw.notes
    if n_dropped:
        notes += (f"{n_dropped} of {raw.n_rows} rows have a missing value and were left out.",)
    doubts = [_shape_doubt(*values.shape)]
    if threshold is not None:
        doubts.append(codes_doubt(values, names))
        values, cut_notes = cut(values, names, threshold)
        notes += cut_notes
    if layout == "wide" and is_whole:
        doubts.append(long_doubt(raw))
    doubt = "; ".join(filter(None, doubts))
    return Table(_compact(values), names, raw.n_rows, n_dropped, notes, doubt), labels


def _is_logical(labels: NDArray[Any]) -> bool:
    """Whether all labels are 0 or 1, as which True and False are read, or missing."""
    return labels.dtype.kind == "f" and bool(np.isin(labels[~np.isnan(labels)], (0, 1)).all())


def _labels(
    raw: RawTable, by: str | int | None, reading: Reading
) -> tuple[NDArray[Any], int | None]:
    """The cells of a column as labels, None or NaN where there is none, and its position."""
    if by is None:
        return np.empty(0), None
    places = choose_columns(raw.names, [by])
    if len(places) != 1:
        raise NamesError(f"by must be one column, {by!r} stands for {len(places)}")
    (place,) = places
    if place in raw.words:
        words, column = raw.words[place], raw.values[:, place]
        named = [None if x != x else words.get(x, f"{x:.15g}") for x in column.tolist()]
        return np.array(named, dtype=object), place
    if place not in raw.texts:
        return raw.values[:, place], place
    numbers = {text: reading(text) for text in set(raw.texts[place])}
    cells = [None if numbers[text] != numbers[text] else text.strip() for text in raw.texts[place]]
    return np.array(cells, dtype=object), place


def _read(
    path: Path, header: bool | None, reading: Reading, is_transposed: bool, part: Any
) -> RawTable:
    """The file by the reader of its suffix."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"] and len(suffixes) > 1
    kind = suffixes[-2] if packed else path.suffix.lower()
    if part is not None and kind in (*_TEXT, *READERS):
        raise EbmError(f"part is about files of several tables, {path} is one: omit it")
    if kind in _TEXT:
        return read_text(path, header, reading, is_transposed)
    if kind in _BOOKS and not packed:
        text = sheet_as_text(path, part)
        return read_text(path, header, reading, is_transposed, text=text)
    if header is not None and kind in (*_ARRAYS, ".mat", *READERS):
        raise EbmError(f"header is about the first line of a text, {path} is none: omit it")
    if kind in _ARRAYS and not packed:
        return read_numpy_file(path, part)
    if kind == ".mat" and not packed:
        return read_matlab(path, part)
    if kind in READERS and not packed:
        return READERS[kind](path, reading)
    return refuse_foreign_suffix(path)


def _listed_codes(missing: Any) -> list[str | float]:
    """The codes as a list; one code may be given alone."""
    if isinstance(missing, str) and "," in missing:
        parts = [part.strip() for part in missing.split(",")]
        raise EbmError(f"missing={missing!r} is one text, no cell of a table: give missing={parts}")
    if isinstance(missing, str | Real):
        return [missing]  # type: ignore[list-item]
    if not isinstance(missing, Iterable):
        raise EbmError(f"missing must be a value or several, such as [9, 99], got {missing!r}")
    return list(missing)


def _complete_rows(
    values: NDArray[Any], names: Sequence[str], drop_missing: bool | str
) -> NDArray[Any]:
    """The complete rows, or all of them for ``"never"``; missing values are refused otherwise."""
    if drop_missing == "never":
        return values
    if values.dtype.kind != "f" or not (missing := np.isnan(values)).any():
        return values
    complete: NDArray[Any] = values[~missing.any(axis=1)]
    n_incomplete = len(values) - len(complete)
    if drop_missing and len(complete):
        return complete
    counts = zip(names, missing.sum(axis=0).tolist(), strict=True)
    listed = [f"{name!r} ({count} rows)" for name, count in counts if count]
    more = f" and {len(listed) - _MAX_SHOWN} more columns" if len(listed) > _MAX_SHOWN else ""
    raise MissingValueError(
        f"missing values in {', '.join(listed[:_MAX_SHOWN])}{more}: "
        f"{n_incomplete} of {len(values)} rows are incomplete; {_remedy(missing, names)}"
    )


#: Advice that holds for likelihoods of incomplete rows alone.
KEPT = "keep them for a likelihood of cells missing at random with drop_missing='never', "


def _remedy(missing: Flags, names: Sequence[str]) -> str:
    """Advice to drop rows, or to exclude columns without which some rows are complete."""
    if not missing.any(axis=1).all():
        return f"drop those rows with drop_missing=True, {KEPT}or leave columns out with exclude="
    order = np.argsort(-missing.sum(axis=0), kind="stable")
    # A row is complete without the columns up to the last one that it lacks, emptiest first.
    n_left_out = len(names) - missing[:, order[::-1]].argmax(axis=1)
    fewest = int(n_left_out.min())
    n_complete = int((n_left_out == fewest).sum())
    if fewest == len(names):
        return "every row lacks something and every column too: fill the cells in"
    emptiest = [names[index] for index in order[: min(fewest, _MAX_SHOWN)]]
    advice = f"exclude={emptiest} leaves {n_complete} complete rows"
    if fewest > _MAX_SHOWN:
        share = f"{n_complete} of {len(missing)} rows are complete"
        advice = f"{share} without the {fewest} emptiest, {', '.join(map(repr, emptiest))}, …"
    return (
        "no row is complete, so that dropping rows would leave none. "
        f"Leave columns out first: {advice}"
    )


def _require_finite(values: NDArray[Any], names: Sequence[str]) -> None:
    if values.dtype.kind == "f" and np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise CodingError(
            f"column {names[column]!r} has the value {values[row, column]} in data row {row + 1}, "
            "wanted finite numbers: correct the cell"
        )


def _compact(values: NDArray[Any]) -> NDArray[Any]:
    """The values as read-only int8 if they are small integers, otherwise float64."""
    first = values[:1]
    if np.array_equal(first, np.rint(first)):
        with np.errstate(invalid="ignore"):
            small = values.astype(np.int8)
        if np.array_equal(small, values):
            small.setflags(write=False)
            return small
    states = np.ascontiguousarray(values, dtype=np.float64)
    states.setflags(write=False)
    return states


def _shape_doubt(n_rows: int, n_columns: int) -> str:
    """A sentence on tables with more than 32 columns and fewer rows, or ten times fewer rows."""
    if n_columns <= 10 * n_rows and (n_columns <= _MANY_COLUMNS or n_columns <= n_rows):
        return ""
    return (
        f"{n_rows} rows of {n_columns} columns: is this table transposed? "
        "Rows are samples and columns are units; layout='transposed' turns it"
    )
