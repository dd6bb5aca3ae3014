"""Text and numpy files as checked numeric tables with named columns."""

from ebm.tables.binarize import binarize
from ebm.tables.categories import as_levels
from ebm.tables.table import Table, read_labelled_table, read_table
from ebm.tables.write_table import write_table

__all__ = ["Table", "as_levels", "binarize", "read_labelled_table", "read_table", "write_table"]
