"""The version, which files and tables made by the library carry."""

__version__ = "0.1.0"
