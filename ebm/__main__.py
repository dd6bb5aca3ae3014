"""``python -m ebm``, the same as the command ``ebm``."""

import sys

from ebm.cli import main

if __name__ == "__main__":
    sys.exit(main())
