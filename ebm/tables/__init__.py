"""Data files in: text and numpy files become checked numeric tables with named columns."""

from ebm.tables.table import Table, binarize, read_table

__all__ = ["Table", "binarize", "read_table"]
