"""Files of other programs: each is named, with the way from there to a table that is read."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from ebm.errors import FileFormatError

__all__ = ["refuse_foreign_content", "refuse_foreign_suffix"]

_PANDAS = "pandas.{}(…).to_csv('table.csv', index=False)"
_SHEET = "a spreadsheet", "save the sheet as CSV"
_MATLAB = "a MATLAB file", "writematrix(X, 'table.csv') in MATLAB writes it as text"
_SPSS = "an SPSS file", _PANDAS.format("read_spss") + " writes it as text"
_STATA = "a Stata file", _PANDAS.format("read_stata") + " writes it as text"
_SAS = "a SAS file", _PANDAS.format("read_sas") + " writes it as text"
_R = "an R file", "write.csv(x, 'table.csv', row.names = FALSE) in R writes it as text"
_PARQUET = "a Parquet file", _PANDAS.format("read_parquet") + " writes it as text"
_ARROW = "an Arrow file", _PANDAS.format("read_feather") + " writes it as text"
_HDF = "an HDF5 file", "save the one matrix that is the data with numpy.save"
_PICKLE = "a pickled Python object", "save the array with numpy.save"
_JSON = "a JSON file", _PANDAS.format("read_json") + " writes it as a table"
_PACKED = "a compressed file", "unpack it, or compress the text with gzip"

#: What a suffix means, and what to do.
_SUFFIXES = {
    ".xlsx": _SHEET, ".xls": _SHEET, ".xlsm": _SHEET, ".ods": _SHEET, ".numbers": _SHEET,
    ".mat": _MATLAB, ".sav": _SPSS, ".zsav": _SPSS, ".por": _SPSS, ".dta": _STATA,
    ".sas7bdat": _SAS, ".xpt": _SAS, ".rds": _R, ".rda": _R, ".rdata": _R,
    ".parquet": _PARQUET, ".feather": _ARROW, ".arrow": _ARROW,
    ".h5": _HDF, ".hdf5": _HDF, ".nwb": _HDF, ".pkl": _PICKLE, ".pickle": _PICKLE,
    ".json": _JSON, ".zip": _PACKED, ".bz2": _PACKED, ".xz": _PACKED, ".zst": _PACKED,
}  # fmt: skip
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
    if suffix in _SUFFIXES:
        kind, remedy = _SUFFIXES[suffix]
        raise FileFormatError(f"{path} is {kind} (suffix {suffix}), which is not read: {remedy}")
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
