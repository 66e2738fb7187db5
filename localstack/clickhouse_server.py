#!/usr/bin/env python3
"""A real ClickHouse HTTP server on loopback, out of the PyPI wheel `chdb-core`.

The wheel holds the whole engine with its stock HTTP and TCP servers. There is no documented way to start
them: this file loads the extension module directly and runs `SYSTEM START LISTEN`, inside the query that
then keeps the process alive. That is why version and hash are pinned (requirements-clickhouse.txt).

The supervisor starts it; by hand, with the environment's Python:

    clickhouse_server.py --data DIR --http-port 18123 [--tcp-port 19000] [--name TEXT]
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import sysconfig
from types import ModuleType
from xml.sax.saxutils import escape

import process

MEMORY_LIMIT_BYTES = 4 * 1024**3


def configuration(name: str, http_port: int, tcp_port: int) -> str:
    """The server's config.xml. The name comes back in a header of every answer, so that a client can tell
    this server from another one that happens to hold the port."""
    return f"""<clickhouse>
    <display_name>{escape(name)}</display_name>
    <listen_host>127.0.0.1</listen_host>
    <http_port>{http_port}</http_port>
    {f"<tcp_port>{tcp_port}</tcp_port>" if tcp_port else ""}
    <timezone>UTC</timezone>
    <max_server_memory_usage>{MEMORY_LIMIT_BYTES}</max_server_memory_usage>
    <users_config>users.xml</users_config>
    <default_profile>default</default_profile>
    <logger><console>1</console></logger>
    <log-level>warning</log-level>
</clickhouse>
"""


def users() -> str:
    """Two users: `default`, without a password, and `reader`, whose writes fail with code 164, as a worker's
    would with the wrong credentials. More can only be added here: this engine has no store for CREATE USER.

    `async_insert` is off explicitly: this engine takes 1 without an error but then inserts synchronously, so a
    test that relied on it would prove nothing about a real server.
    """
    return """<clickhouse>
    <profiles>
        <default>
            <async_insert>0</async_insert>
        </default>
        <reader>
            <async_insert>0</async_insert>
            <!-- 2 = no writes, but settings may be changed: HTTP clients send some with every query. -->
            <readonly>2</readonly>
        </reader>
    </profiles>
    <users>
        <default>
            <password></password>
            <networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile>
            <quota>default</quota>
        </default>
        <reader>
            <password>reader</password>
            <networks><ip>127.0.0.1</ip></networks>
            <profile>reader</profile>
            <quota>default</quota>
        </reader>
    </users>
    <quotas><default></default></quotas>
</clickhouse>
"""


def load_engine() -> ModuleType:
    """Loads the extension module without the Python package around it, which would import pandas and pyarrow."""
    library = pathlib.Path(sysconfig.get_paths()["purelib"], "chdb", "_chdb.abi3.so")
    # The module finds its helper libraries relative to the working directory.
    os.chdir(library.parent)
    loader = importlib.machinery.ExtensionFileLoader("_chdb", str(library))
    spec = importlib.util.spec_from_loader("_chdb", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def serve(data: pathlib.Path, name: str, http_port: int, tcp_port: int) -> None:
    """Serves until the process is killed. Never returns by itself."""
    config = data / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.xml").write_text(configuration(name, http_port, tcp_port))
    (config / "users.xml").write_text(users())
    engine = load_engine()
    # The engine reads ./config.xml and has no option to name another file.
    os.chdir(config)
    # Python would only see a signal after the query below, which never ends. An abrupt end is safe:
    # MergeTree acknowledges an insert after its part is in place.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    statements = ["SYSTEM START LISTEN HTTP"]
    if tcp_port:
        statements.append("SYSTEM START LISTEN TCP")
    # The servers live as long as the query that started them.
    statements.append(
        "SELECT sleepEachRow(1) FROM system.numbers FORMAT Null "
        "SETTINGS max_block_size = 1, max_threads = 1, function_sleep_max_microseconds_per_block = 0"
    )
    engine.query("; ".join(statements), "TSV", path=str(data / "store"))


def main() -> None:
    parser = argparse.ArgumentParser(description="A ClickHouse HTTP server on 127.0.0.1.")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="directory of the tables")
    parser.add_argument("--http-port", type=int, required=True)
    parser.add_argument("--tcp-port", type=int, default=0, help="native protocol; off by default")
    parser.add_argument("--name", default="tollgate", help="the display name the server reports")
    parser.add_argument("--parent", type=int, help="end when this parent process ends")
    arguments = parser.parse_args()
    if arguments.parent is not None:
        process.die_with_parent(arguments.parent)
    serve(arguments.data.resolve(), arguments.name, arguments.http_port, arguments.tcp_port)


if __name__ == "__main__":
    main()
