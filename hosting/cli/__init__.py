"""The command line `treadle`: of a server, and of a store without one."""

from .main import main

__all__ = ["main"]
