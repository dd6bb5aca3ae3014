"""Files of other programs are refused with the way to convert them."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from ebm.errors import FileFormatError

_PANDAS = "pandas.{}(…).to_csv('table.csv', index=False) writes it as text"
#: Kind of a file by its suffix, and the remedy.
_KINDS = {
    ".xls .ods .numbers": ("a spreadsheet", "save it as .xlsx, or the sheet as CSV"),
    ".por": ("an SPSS file", "save it as .sav"),
    ".dta": ("a Stata file", _PANDAS.format("read_stata")),
    ".sas7bdat .xpt": ("a SAS file", _PANDAS.format("read_sas")),
    ".rds .rda .rdata": (
        "an R file",
        "write.csv(x, 'table.csv', row.names = FALSE) in R writes it as text",
    ),
    ".h5 .hdf5 .nwb": ("an HDF5 file", "save the one matrix that is the data with numpy.save"),
    ".pkl .pickle": ("a pickled Python object", "save the array with numpy.save"),
    ".json": ("a JSON file", _PANDAS.format("read_json")),
    ".zip .bz2 .xz .zst": ("a compressed file", "unpack it, or compress the text with gzip"),
}
_KIND_OF = {suffix: kind for suffixes, kind in _KINDS.items() for suffix in suffixes.split()}
#: Kind of a file by its first bytes, and the remedy.
_SIGNATURES = {
    b"PK\x03\x04": ("a zip archive, as Excel workbooks are", "let its name end with .xlsx"),
    b"\x1f\x8b": ("gzipped", "let its name end with .gz"),
    b"\x93NUMPY": ("a numpy array", "let its name end with .npy"),
    b"\xd0\xcf\x11\xe0": _KIND_OF[".xls"], b"\x89HDF": _KIND_OF[".h5"],
    b"MATLAB 5.0": ("a MATLAB file", "let its name end with .mat"),
    b"$FL2": ("an SPSS file", "let its name end with .sav"),
    b"PAR1": ("a Parquet file", "let its name end with .parquet"),
    b"ARROW1": ("an Arrow file", "let its name end with .arrow"),
}  # fmt: skip


def refuse_foreign_suffix(path: Path) -> NoReturn:
    """Refuse a file by its suffix, naming its program where the suffix is known."""
    suffix = path.suffix.lower()
    if suffix in _KIND_OF:
        kind, remedy = _KIND_OF[suffix]
        raise FileFormatError(f"{path} is {kind} (suffix {suffix}), which is not read: {remedy}")
    raise FileFormatError(
        f"{path} has the suffix {''.join(path.suffixes[-2:]) or 'none'}, wanted "
        ".csv, .tsv, .txt (or one of these with .gz), .npy, .npz, .mat, .xlsx, .sav, .parquet or "
        ".feather: rename or convert the file"
    )


def refuse_foreign_content(path: Path, content: bytes) -> None:
    """Refuse content that is not text in a file with the suffix of a text."""
    for signature, (kind, remedy) in _SIGNATURES.items():
        if content.startswith(signature):
            raise FileFormatError(f"{path} is no text file but {kind}: {remedy}")
    if b"\0" in content:
        raise FileFormatError(
            f"{path} holds NUL bytes (the first is byte {content.index(0)}), which no text has: "
            "it is binary, damaged, or UTF-16 without a byte order mark. Save it as UTF-8 text"
        )
