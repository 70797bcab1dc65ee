"""A private PostgreSQL cluster of a chosen version on a free loopback port and a Unix socket.

    with Postgres(version=17, settings={"wal_sender_timeout": "3s"}) as pg:
        pg.sql("SELECT 1")

Version 15 is Debian's; the others are fetched by tests/support/fetch_servers.sh.
"""

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg2

from .ports import free_port
from .postgres_installation import Installation
from .process import Process, as_account, make_directory, remove_directory, service_account
from .wait import eventually

DEFAULT_SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": 20,
    "max_replication_slots": 20,
    "fsync": "off",  # A killed process loses nothing by it; only a crash of the machine would.
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_replication_commands": "on",
}

TRUST_EVERYONE = ["local all all trust", "host all all 127.0.0.1/32 trust",
                  "local replication all trust", "host replication all 127.0.0.1/32 trust"]

STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Postgres:
    """Created stopped; `start()` or the `with` statement starts it, `close()` removes everything.

    `data_from` starts from a copy that `copy_data()` made instead of an empty cluster; with
    `standby_of` it follows that running server by physical replication. In a `netns` it is reached over TCP through
    that cable alone, and by its Unix socket as ever.
    """

    host = "127.0.0.1"

    def __init__(self, version=15, settings=None, data_from=None, standby_of=None, netns=None):
        self.version = version
        self._netns = netns
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self.hba = list(TRUST_EVERYONE)
        if netns is not None:
            self.host = netns.inside
            self.hba.append(f"host all all {netns.outside}/32 trust")
        self.port = free_port()
        self._process = None
        self._stopped_pids = set()
        self._copy_numbers = itertools.count(1)
        self._account = service_account()
        self.root = make_directory(f"postgresql-{version}", self._account)
        self.socket_dir = self.root
        self.data = self.root / "data"
        self.log_path = self.root / "server.log"
        atexit.register(self.close)
        self.installation = Installation.find(version, self._account)
        if data_from is None:
            self._run("initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "--no-sync",
                      "--encoding=UTF8", "--locale=C")
        else:
            self._copy_tree(data_from, self.data)
        if standby_of is not None:
            self.settings["primary_conninfo"] = (
                f"host={standby_of.socket_dir} port={standby_of.port} user=postgres")
            self._write("standby.signal", "")

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    # Starting and stopping

    @property
    def running(self):
        return self._process is not None and self._process.running

    @property
    def pid(self):
        return self._process.pid

    def start(self, deadline_s=60):
        if self.running:
            return self
        self._write_settings()
        self._write("pg_hba.conf", "\n".join(self.hba) + "\n")
        command, account = [self.installation.program("postgres"), "-D", self.data], self._account
        if self._netns is not None:
            command, account = self._netns.command(*command, account=account), None
        self._process = Process(command, self.log_path, cwd=self.root, account=account)
        eventually(self._accepts_connections, deadline_s,
                   lambda: f"PostgreSQL {self.version} accepts connections; its log ends with:\n"
                   + self._process.log_tail(), unless=self._process.check_running)
        return self

    def stop(self, mode="fast", deadline_s=30):
        """As `pg_ctl stop -m MODE` does; returns the seconds it took."""
        started = time.monotonic()
        if self.running:
            self._process.signal(STOP_SIGNALS[mode])
            self._process.wait(deadline_s)
        return time.monotonic() - started

    def restart(self, mode="fast", deadline_s=30):
        self.stop(mode, deadline_s)
        return self.start()

    def kill(self):
        """SIGKILL to the postmaster and its children: nothing is written any more."""
        if self.running:
            self._process.kill()
        self._stopped_pids.clear()
        # A new postmaster refuses to start beside a backend that has not quite gone.
        eventually(lambda: not self._backends(), 30, "the backends of the killed server are gone")

    def close(self):
        atexit.unregister(self.close)
        self.resume_all()
        try:
            self.stop("immediate", deadline_s=10)
        except TimeoutError:
            self.kill()
        self._remove_shared_memory()
        remove_directory(self.root)

    def promote(self, deadline_s=30):
        """Makes a standby a primary, on a new timeline."""
        self.sql("SELECT pg_promote(true, %s)", [deadline_s])
        eventually(lambda: not self.value("SELECT pg_is_in_recovery()"), deadline_s, "promotion")

    # SQL

    def dsn(self, database="postgres", user="postgres", tcp=False, **more):
        parts = {"host": self.host if tcp else self.socket_dir, "port": self.port,
                 "dbname": database, "user": user, **more}
        return psycopg2.extensions.make_dsn(**{k: str(v) for k, v in parts.items()})

    def connect(self, db="postgres", user="postgres", autocommit=False, tcp=False, **more):
        """A psycopg2 connection; `more` are libpq keywords."""
        connection = psycopg2.connect(self.dsn(db, user, tcp, connect_timeout=10, **more))
        connection.autocommit = autocommit
        return connection

    def sql(self, text, params=None, db="postgres", user="postgres"):
        """Runs it on a connection of its own, outside a transaction block; the rows as tuples."""
        connection = self.connect(db, user, autocommit=True)
        try:
            with connection.cursor() as cursor:
                cursor.execute(text, params)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def value(self, text, params=None, db="postgres", user="postgres"):
        """The first column of the first row; None when there is no row."""
        rows = self.sql(text, params, db, user)
        return rows[0][0] if rows else None

    def psql(self, source, db="postgres", user="postgres", variables=None, deadline_s=60):
        """Runs a file (a Path) or a text through psql, stopping at the first error; its output."""
        command = [Installation.client("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d",
                   self.dsn(db, user)]
        for name, setting in (variables or {}).items():
            command += ["-v", f"{name}={setting}"]
        given = None
        if isinstance(source, Path):
            command += ["-f", source]
        else:
            given = source
        done = subprocess.run(command, input=given, text=True, capture_output=True,
                              timeout=deadline_s)
        if done.returncode != 0:
            raise RuntimeError(f"psql ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def create_database(self, name, template=None):
        self.sql(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return name

    # Settings and access

    def set(self, **settings):
        """Changes settings; those that need a restart take effect at the next start."""
        self.settings.update(settings)
        self._write_settings()
        if self.running:
            self.reload()

    def require_password(self, role, password):
        """From then on `role` needs it (SCRAM), over both kinds of connection."""
        self.sql(f'ALTER ROLE "{role}" PASSWORD %s', [password])
        self.set_hba([f'local all "{role}" scram-sha-256',
                      f'host all "{role}" 127.0.0.1/32 scram-sha-256'] + self.hba)

    def set_hba(self, lines=None):
        """Replaces pg_hba.conf; without lines, everyone is trusted again."""
        self.hba = list(lines or TRUST_EVERYONE)
        self._write("pg_hba.conf", "\n".join(self.hba) + "\n")
        if self.running:
            self.reload()

    def reload(self):
        """Returns once new connections get the new settings."""
        loaded = self.value("SELECT pg_conf_load_time()")
        self.sql("SELECT pg_reload_conf()")
        eventually(lambda: self.value("SELECT pg_conf_load_time()") > loaded, 10,
                   "the new configuration is loaded")

    # Replication

    def slot(self, name):
        """The row of pg_replication_slots as a dict, or None."""
        connection = self.connect(autocommit=True)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT * FROM pg_replication_slots WHERE slot_name = %s", [name])
                row = cursor.fetchone()
                return dict(zip([column.name for column in cursor.description], row)) if row else None
        finally:
            connection.close()

    def walsender_pid(self, slot):
        """The pid of the walsender that reads the slot, or None."""
        return self.value("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", [slot])

    def pause(self, pid):
        """SIGSTOP to one backend, such as a walsender."""
        os.kill(pid, signal.SIGSTOP)
        self._stopped_pids.add(pid)

    def resume(self, pid):
        self._stopped_pids.discard(pid)
        os.kill(pid, signal.SIGCONT)

    def resume_all(self):
        for pid in list(self._stopped_pids):
            try:
                self.resume(pid)
            except ProcessLookupError:
                pass

    @contextmanager
    def paused(self, pid):
        self.pause(pid)
        try:
            yield
        finally:
            self.resume(pid)

    # Copies of the data, for standbys and restored servers

    def copy_data(self):
        """Copies the data of the cleanly stopped server; the path, kept until `close()`."""
        if self.running:
            raise RuntimeError("stop() the server first: only a cleanly stopped directory is whole")
        path = self.root / f"copy-{next(self._copy_numbers)}"
        self._copy_tree(self.data, path)
        return path

    def restore(self, copy):
        """Puts a copy in the place of the stopped server's data."""
        if self.running:
            raise RuntimeError("stop() the server first")
        shutil.rmtree(self.data)
        self._copy_tree(copy, self.data)

    def log_text(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    # Inner matters

    def _backends(self):
        """Whatever works in the data directory, as every process of a server does."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if os.readlink(entry) == str(self.data):
                    found.append(entry)
            except OSError:
                pass  # It has ended, or is none of ours.
        return found

    def _accepts_connections(self):
        try:
            self.sql("SELECT 1")
            return True
        except psycopg2.OperationalError as problem:
            raise ConnectionError(str(problem)) from problem

    def _run(self, program, *arguments):
        done = subprocess.run([self.installation.program(program), *map(str, arguments)],
                              cwd=self.root, text=True, capture_output=True, timeout=120,
                              **as_account(self._account))
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr or done.stdout}")

    def _write_settings(self):
        settings = {"listen_addresses": self.host, "port": self.port,
                    "unix_socket_directories": self.socket_dir, **self.settings}
        quoted = {name: str(value).replace("'", "''") for name, value in settings.items()}
        self._write("postgresql.conf", "".join(f"{n} = '{v}'\n" for n, v in quoted.items()))

    def _write(self, name, text):
        path = self.data / name
        path.write_text(text)
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def _copy_tree(self, source, target):
        subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True, timeout=300)

    def _remove_shared_memory(self):
        """A killed postmaster leaves its small System V segment; the system holds 4,096 at most."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            segment = lines[6].split()[1]
        except (FileNotFoundError, IndexError):
            return
        subprocess.run(["ipcrm", "-m", segment], capture_output=True, check=False)
