"""Where tests/support/fetch_servers.sh puts the servers that Debian lacks."""

import os
from pathlib import Path

SERVERS = Path(os.environ.get("OUTBOX_RELAY_SERVERS")
               or Path(__file__).resolve().parents[2] / "build" / "servers")
