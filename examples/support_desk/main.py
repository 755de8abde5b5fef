"""Owns `make example`: opens the support desk on a directory and lets one customer talk to it in the terminal.

python examples/support_desk/main.py                 the embedded clerk, no network
python examples/support_desk/main.py --data DIR      keep the store and the orders there
TREADLE_MODEL=openai:gpt-5-mini TREADLE_API_KEY=... python examples/support_desk/main.py
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # run as a script, this file's own folder is all that Python sees

from examples.support_desk.keyboard import Keyboard  # noqa: E402
from examples.support_desk.orders import OrderBook  # noqa: E402
from examples.support_desk.screen import Screen  # noqa: E402
from examples.support_desk.talk import Talk  # noqa: E402
from treadle.actors import Runtime, Thread  # noqa: E402
from treadle.agents import load_agents  # noqa: E402
from treadle.agents.environment import Environment, EnvValue  # noqa: E402
from treadle.protocol.errors import InvalidDefinitions, StoreInUse, ThreadExists  # noqa: E402
from treadle.storage import LmdbStore  # noqa: E402

CUSTOMER = "mia"


def main() -> int:
    """Talk until the customer leaves; 1 if the desk could not open."""
    options = _options()
    options.data.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(_open(options.data))
    except StoreInUse as error:
        print(f"The desk is open elsewhere: {error}", file=sys.stderr)
        return 1
    except InvalidDefinitions as error:  # a provider's model that cannot be reached is one, too
        print(f"The desk cannot open: {error}", file=sys.stderr)
        return 1
    return 0


async def _open(data: Path) -> None:
    orders = data / "orders.sqlite3"
    OrderBook(orders).create()
    # Whoever runs the desk says where its orders are; no thread and no customer can.
    environment = Environment(instance={"ORDERS_FILE": EnvValue(str(orders), "text")})
    agents = load_agents(HERE, environment=environment)
    screen = Screen(sys.stdout, shows_input=not sys.stdin.isatty())
    screen.welcome(os.environ.get("TREADLE_MODEL"))
    async with Runtime(LmdbStore(data / "store"), agents=agents) as runtime:
        await Talk(await _thread(runtime), Keyboard(sys.stdin), screen).run()


async def _thread(runtime: Runtime) -> Thread:
    """Return the customer's conversation: the one of last time, if there was one."""
    with contextlib.suppress(ThreadExists):
        await runtime.create_thread(
            "desk", thread_id=CUSTOMER, user_id=CUSTOMER, arguments={"customer": CUSTOMER.title()}
        )
    return runtime.thread(CUSTOMER)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A support desk in the terminal.")
    parser.add_argument(
        "--data", type=Path, default=HERE.parent.parent / "data" / "support_desk", help="where it keeps its data"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
