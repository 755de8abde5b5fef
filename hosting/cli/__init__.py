"""The command line `treadle`: of a server, and of a store without one. Says what to install where it was installed without."""

import sys

__all__ = ["main"]

try:
    from .main import main
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] == "treadle":
        raise
    _WHY = f"treadle: extra_missing: the command line needs more packages: pip install 'treadle[serve]' ({error})\n"

    def main() -> None:
        """Say what to install, and exit: this program is there without its extra, too."""
        sys.stderr.write(_WHY)
        sys.exit(2)
