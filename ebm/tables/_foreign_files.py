"""Files of other programs: each is named, with the way from there to a table that is read."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from ebm.errors import FileFormatError

__all__ = ["refuse_foreign_content", "refuse_foreign_suffix"]

_PANDAS = "pandas.{}(…).to_csv('table.csv', index=False) writes it as {}"
_SHEET = "a spreadsheet", "save the sheet as CSV"
_MATLAB = "a MATLAB file", "writematrix(X, 'table.csv') in MATLAB writes it as text"
_SPSS = "an SPSS file", _PANDAS.format("read_spss", "text")
_PARQUET = "a Parquet file", _PANDAS.format("read_parquet", "text")
_ARROW = "an Arrow file", _PANDAS.format("read_feather", "text")
_HDF = "an HDF5 file", "save the one matrix that is the data with numpy.save"
#: What suffixes mean, and what to do.
_KINDS = {
    ".xlsx .xls .xlsm .ods .numbers": _SHEET,
    ".mat": _MATLAB,
    ".sav .zsav .por": _SPSS,
    ".dta": ("a Stata file", _PANDAS.format("read_stata", "text")),
    ".sas7bdat .xpt": ("a SAS file", _PANDAS.format("read_sas", "text")),
    ".rds .rda .rdata": (
        "an R file",
        "write.csv(x, 'table.csv', row.names = FALSE) in R writes it as text",
    ),
    ".parquet": _PARQUET,
    ".feather .arrow": _ARROW,
    ".h5 .hdf5 .nwb": _HDF,
    ".pkl .pickle": ("a pickled Python object", "save the array with numpy.save"),
    ".json": ("a JSON file", _PANDAS.format("read_json", "a table")),
    ".zip .bz2 .xz .zst": ("a compressed file", "unpack it, or compress the text with gzip"),
}
#: What a text file that begins so really is.
_SIGNATURES = {
    b"PK\x03\x04": ("a zip archive, as Excel workbooks are", "save the sheet as CSV"),
    b"\xd0\xcf\x11\xe0": _SHEET, b"\x1f\x8b": ("gzipped", "let its name end with .gz"),
    b"MATLAB 5.0": _MATLAB, b"\x89HDF": _HDF, b"$FL2": _SPSS, b"PAR1": _PARQUET, b"ARROW1": _ARROW,
    b"\x93NUMPY": ("a numpy array", "let its name end with .npy"),
}  # fmt: skip


def refuse_foreign_suffix(path: Path) -> NoReturn:
    """Refuse a file by its suffix: as one of another program where the suffix is known."""
    suffix = path.suffix.lower()
    for suffixes, (kind, remedy) in _KINDS.items():
        if suffix in suffixes.split():
            raise FileFormatError(
                f"{path} is {kind} (suffix {suffix}), which is not read: {remedy}"
            )
    raise FileFormatError(
        f"{path} has the suffix {''.join(path.suffixes[-2:]) or 'none'}, wanted "
        ".csv, .tsv, .txt (or one of these with .gz), .npy or .npz: rename or convert the file"
    )


def refuse_foreign_content(path: Path, content: bytes) -> None:
    """Refuse content that is no text although the suffix says so."""
    for signature, (kind, remedy) in _SIGNATURES.items():
        if content.startswith(signature):
            raise FileFormatError(f"{path} is no text file but {kind}: {remedy}")
    if b"\0" in content:
        raise FileFormatError(
            f"{path} holds NUL bytes (the first is byte {content.index(0)}), which no text has: "
            "it is binary, damaged, or UTF-16 without a byte order mark. Save it as UTF-8 text"
        )
