"""Where the programs of one PostgreSQL version are, readable for the account that runs them."""

import shutil
import subprocess
from pathlib import Path

from .fetched import SERVERS
from .process import as_account, make_directory

DEBIAN_VERSION = 15
DEBIAN_PROGRAMS = Path("/usr/lib/postgresql") / str(DEBIAN_VERSION) / "bin"

_copies = {}


class Installation:
    def __init__(self, programs):
        self.programs = programs

    def program(self, name):
        return self.programs / name

    @staticmethod
    def client(name):
        """psql, pg_recvlogical and the like: Debian's, which speak to every version."""
        path = DEBIAN_PROGRAMS / name
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: tests/support/install_packages.sh tests")
        return path

    @staticmethod
    def find(version, account):
        if version == DEBIAN_VERSION:
            programs = DEBIAN_PROGRAMS
            remedy = "tests/support/install_packages.sh tests"
        else:
            programs = SERVERS / f"postgresql-{version}" / "bin"
            remedy = f"tests/support/fetch_servers.sh postgresql-{version}"
        if not (programs / "postgres").exists():
            raise FileNotFoundError(f"PostgreSQL {version} is not in {programs}: {remedy}")
        if account is not None and not _may_run(programs / "postgres", account):
            programs = _copy_for(account, programs.parent) / "bin"
        return Installation(programs)


def _may_run(program, account):
    """A clone below /root, for example, is closed to the postgres user."""
    return subprocess.run([shutil.which("test"), "-x", program], cwd="/", check=False,
                          **as_account(account)).returncode == 0


def _copy_for(account, installation):
    if installation not in _copies:
        target = make_directory("programs", account) / installation.name
        shutil.copytree(installation, target, symlinks=True)
        _copies[installation] = target
    return _copies[installation]
