"""Owns the list of mutants: rules broken on purpose, one by one, each with the test that must notice.

Run as a script it prints each mutant and its killer, and exits 1 if one survives. A mutant that survives is a missing
oracle. Those of the table and its rules stand in `rule_mutants`, those of edits in `edit_mutants`, those of the shell in `shell_mutants`; a
mutant of anything else is a `Mutant` in a list of its own, added to `MUTANTS` here.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.simulation.edit_mutants import EDITED
from tests.simulation.mutant import Mutant, Survived
from tests.simulation.rule_mutants import RULES
from tests.simulation.shell_mutants import SHELL

MUTANTS: list[Mutant] = [*RULES, *EDITED, *SHELL]


def main() -> int:
    """Try each mutant, print its killer, and return 1 if one survived."""
    width = max(len(mutant.name) for mutant in MUTANTS)
    survived = 0
    for mutant in MUTANTS:
        began = time.monotonic()
        try:
            found = mutant.kill()
        except Survived as error:
            survived += 1
            found = f"SURVIVED: {error}"
        print(f"{mutant.name:<{width}}  {found}  ({time.monotonic() - began:.2f} s)", flush=True)
    print(f"{len(MUTANTS)} mutants, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # a broken shell complains, and that is its purpose here
    sys.exit(main())
