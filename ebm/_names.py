"""The names of this library: those of its package, its distribution and its program."""

#: The package as it is imported.
PACKAGE = __name__.partition(".")[0]
#: The distribution as it is installed, which no other package on the index is called.
DISTRIBUTION = "ebm-framework"
#: The program, an entry point of the distribution.
PROGRAM = "ebm"
