"""Owns `make serve`: the support desk as a service, with its console in the browser; the same desk as `make example`.

python examples/support_desk/service.py              on http://127.0.0.1:8642, with the embedded clerk
python examples/support_desk/service.py --port 0     on a free port
python examples/support_desk/service.py --data DIR   keep the store and the orders there
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # run as a script, this file's own folder is all that Python sees

from examples.support_desk.orders import OrderBook  # noqa: E402
from treadle.actors import Runtime  # noqa: E402
from treadle.agents import load_agents  # noqa: E402
from treadle.agents.environment import Environment, EnvValue  # noqa: E402
from treadle.hosting.app import create_app  # noqa: E402
from treadle.hosting.logs import configure_logging  # noqa: E402
from treadle.hosting.server import serve  # noqa: E402
from treadle.protocol.errors import InvalidDefinitions, StoreInUse, ThreadExists  # noqa: E402
from treadle.storage import LmdbStore  # noqa: E402

CUSTOMER = "mia"


def main() -> int:
    """Serve until a signal; 1 if the desk could not open."""
    options = _options()
    configure_logging("text", "WARNING")
    options.data.mkdir(parents=True, exist_ok=True)
    try:
        with _runtime(options.data) as runtime:
            # Somebody to talk for: a customer of whom the book has orders.
            with contextlib.suppress(ThreadExists):
                runtime.create_thread(
                    "desk", thread_id=CUSTOMER, user_id=CUSTOMER, arguments={"customer": CUSTOMER.title()}
                ).result()
            return serve(runtime, create_app(runtime), options.host, options.port)
    except StoreInUse as error:
        print(f"The desk is open elsewhere: {error}", file=sys.stderr)
    except InvalidDefinitions as error:  # a provider's model that cannot be reached is one, too
        print(f"The desk cannot open: {error}", file=sys.stderr)
    except OSError as error:
        print(f"The desk cannot listen on {options.host}:{options.port}: {error}", file=sys.stderr)
    return 1


def _runtime(data: Path) -> Runtime:
    orders = data / "orders.sqlite3"
    OrderBook(orders).create()
    environment = Environment(instance={"ORDERS_FILE": EnvValue(str(orders), "text")})
    return Runtime(LmdbStore(data / "store"), agents=load_agents(HERE, environment=environment), drain_timeout=10)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A support desk as a service.")
    parser.add_argument(
        "--data", type=Path, default=HERE.parent.parent / "data" / "support_desk", help="where it keeps its data"
    )
    parser.add_argument("--host", default="127.0.0.1", help="what to listen on; without tokens this machine alone")
    parser.add_argument("--port", type=int, default=8642, help="0 for a free one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
