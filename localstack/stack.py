#!/usr/bin/env python3
"""The local stack: an AWS emulator and a real ClickHouse, on loopback, without containers.

    stack.py up [--name dev] [--lease PID] [--aws-port N] [--clickhouse-port N] [--json]
    stack.py down [--name dev] [--wipe]
    stack.py status [--name dev] [--json]
    stack.py list [--json]
    stack.py restart|stop|start SERVICE [--name dev] [--kill]

Needs Python 3.10 or newer and nothing else: what it runs is installed into an environment of its own.
Exit status: 0 done, 1 failed (the message says what to do), 2 wrong usage. See README.md beside this file.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 10):
    sys.exit(
        "stack.py needs Python 3.10 or newer, and this is %d.%d: run it with a newer python3." % sys.version_info[:2]
    )

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
from typing import Any, NoReturn

import environment
import process
from environment import StackError
from services import SCHEMA, TEMPLATE
from stack_record import SERVICES, Json, Stack, all_stacks, say
from supervisor import write_json

# Below the range from which systems pick ports for outgoing connections: one of those could otherwise sit
# on a stack's port while it is down.
PORTS = range(20000, 30000)


def check_port_free(port: int, option: str) -> None:
    if not process.port_is_free(port):
        raise StackError(
            f"port {port} is taken by {process.port_holder(port)}. "
            f"Choose another with {option}, or leave {option} out and a free port is picked."
        )


def choose_ports(stack: Stack, aws: int | None, clickhouse: int | None) -> tuple[int, int]:
    """The ports of a stack: those asked for, else those it had, else free ones, which it then keeps."""
    asked = {"aws": aws, "clickhouse": clickhouse}
    kept = stack.read("ports.json")
    others = {port for other in all_stacks() if other.name != stack.name for port in other.read("ports.json").values()}
    # Stacks of other state directories are unknown here; starting at different places keeps them apart.
    seed = hashlib.sha256(os.fsencode(stack.directory)).digest()
    candidates = iter([*PORTS[int.from_bytes(seed[:4], "big") % len(PORTS) :], *PORTS])
    chosen: dict[str, int] = {}
    for service, port in asked.items():
        if port is not None:
            check_port_free(port, f"--{service}-port")
            chosen[service] = port
            continue
        port = kept.get(service)
        if port is not None and not process.port_is_free(port):
            say(
                f"note: port {port}, which {stack.name} had, is now taken by {process.port_holder(port)}: "
                "another is picked, so its address changes"
            )
            port = None
        while port is None or port in chosen.values():
            port = next((c for c in candidates if c not in others and process.port_is_free(c)), None)
            if port is None:
                raise StackError(f"no free port from {PORTS[0]} to {PORTS[-1]}: name some with --{service}-port")
        chosen[service] = port
    if chosen["aws"] == chosen["clickhouse"]:
        raise StackError(f"--aws-port and --clickhouse-port are both {chosen['aws']}: they must differ")
    if "aws" in kept and kept["aws"] != chosen["aws"]:
        move_queue_urls(stack, kept["aws"], chosen["aws"])
    stack.directory.mkdir(parents=True, exist_ok=True)
    write_json(stack.directory / "ports.json", chosen)
    return chosen["aws"], chosen["clickhouse"]


def move_queue_urls(stack: Stack, old: int, new: int) -> None:
    """The emulator saves queues under their URLs, port included: after a change of port it would not find them."""
    for file in (stack.directory / "ministack" / "state").glob("*.json"):
        saved = file.read_text()
        moved = saved.replace(f"http://127.0.0.1:{old}/", f"http://127.0.0.1:{new}/")
        if moved != saved:
            file.write_text(moved)


def launch(stack: Stack, ports: tuple[int, int], leases: list[process.Identity], pin: bool, venv_lock: int) -> Json:
    """Starts the supervisor in a session of its own and waits until the stack is ready."""
    logs = stack.directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    command = [
        str(environment.venv_python(environment.venv_directory())),
        str(environment.HERE / "supervisor.py"), str(stack.directory),
        "--aws-port", str(ports[0]), "--clickhouse-port", str(ports[1]), "--leases", json.dumps(leases),
        *(["--pin"] if pin else []),
    ]
    log = logs / "supervisor.log"
    with log.open("ab") as errors:
        supervisor = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True, pass_fds=[venv_lock],
        )
    assert supervisor.stdout is not None
    for line in supervisor.stdout:
        message = json.loads(line)
        if "progress" in message:
            say(message["progress"])
        elif "error" in message:
            supervisor.wait()
            raise StackError(message["error"])
        else:
            description: Json = message["ready"]
            return description
    raise StackError(f"the supervisor ended before the stack was ready. Its last lines ({log}):\n{environment.tail(log)}")


def parse_leases(pids: list[int]) -> list[process.Identity]:
    leases = [process.identity(pid) for pid in pids]
    for lease in leases:
        if not process.is_running(lease):
            raise StackError(f"--lease {lease['pid']}: no such process runs, so the stack would stop at once")
    return leases


def check_ports_match(running: Json, aws: int | None, clickhouse: int | None) -> None:
    for key, port, option in (("aws_endpoint_url", aws, "--aws-port"), ("clickhouse_url", clickhouse, "--clickhouse-port")):
        if port is not None and not running[key].endswith(f":{port}"):
            raise StackError(
                f"stack {running['name']} already runs with {key} {running[key]}, not with {option} {port}: "
                f"`stack.py down --name {running['name']}` first, or use another --name."
            )


def up(arguments: argparse.Namespace) -> None:
    stack = Stack(arguments.name)
    for needed in (SCHEMA, TEMPLATE):
        if not needed.is_file():
            raise StackError(f"{needed} is missing: the stack can't be set up without it. Check it out again.")
    environment.check_platform()
    leases = parse_leases(arguments.lease)
    with stack.locked():
        description = None
        supervisor = stack.supervisor()
        if supervisor is not None:
            running = stack.read("stack.json")
            if running:
                check_ports_match(running, arguments.aws_port, arguments.clickhouse_port)
            try:
                description = stack.ask({"command": "ensure", "leases": leases, "pin": not leases})
            except (ConnectionError, FileNotFoundError):
                # It is about to end (its last lease is gone), or an interrupted `up` left it half-way.
                stack.end(supervisor)
        if description is None:
            venv_lock = environment.ensure_venv(say)
            stack.sweep()
            with environment.exclusive_lock(environment.state_root() / "locks" / "ports.lock"):
                ports = choose_ports(stack, arguments.aws_port, arguments.clickhouse_port)
            description = launch(stack, ports, leases, not leases, venv_lock.fileno())
    if arguments.json:
        print(json.dumps(description))
    else:
        print(f"stack {stack.name} is up")
        show(description)


def show(description: Json) -> None:
    print(f"  AWS         {description['aws_endpoint_url']}  (region {description['region']}, any credentials)")
    print(f"  ClickHouse  {description['clickhouse_url']}  (database {description['clickhouse_database']})")
    for key, value in description["outputs"].items():
        print(f"  {key:<20} {value}")


def down(arguments: argparse.Namespace) -> None:
    stack = Stack(arguments.name)
    with stack.locked():
        supervisor = stack.supervisor()
        if supervisor is None:
            stack.sweep()
            say(f"stack {stack.name} is not running")
        else:
            stack.end(supervisor)
            say(f"stack {stack.name} is down")
        if arguments.wipe:
            if stack.directory.exists():
                shutil.rmtree(stack.directory)
            say(f"its data is deleted ({stack.directory})")


def status(arguments: argparse.Namespace) -> None:
    state = Stack(arguments.name).state()
    if arguments.json:
        print(json.dumps(state))
        return
    print(f"stack {state['name']}: {state['state']}")
    for service, condition in state["services"].items():
        pid = state.get("pids", {}).get(service)
        print(f"  {service:<11} {condition}" + (f" (pid {pid})" if condition == "running" and pid else ""))
    if "outputs" in state:
        show(state)


def list_stacks(arguments: argparse.Namespace) -> None:
    states = [stack.state() for stack in all_stacks()]
    if arguments.json:
        print(json.dumps(states))
        return
    for state in states:
        print(
            f"{state['name']:<20} {state['state']:<9} "
            f"{state.get('aws_endpoint_url', '')} {state.get('clickhouse_url', '')}".rstrip()
        )
    if not states:
        say(f"no stacks in {environment.state_root()}")


def command_service(arguments: argparse.Namespace) -> None:
    """restart, stop and start: the supervisor does it, since the servers are its children."""
    stack = Stack(arguments.name)
    with stack.locked():
        if stack.supervisor() is None:
            raise StackError(f"stack {stack.name} is not running: `stack.py up --name {stack.name}` first.")
        if arguments.service == "ministack" and getattr(arguments, "kill", False):
            say("note: the AWS emulator saves on SIGTERM only; what DynamoDB and SQS took in since its last start is lost")
        try:
            stack.ask(
                {"command": arguments.command, "service": arguments.service, "kill": getattr(arguments, "kill", False)}
            )
        except (ConnectionError, FileNotFoundError) as error:
            raise StackError(f"stack {stack.name} is stopping or not ready yet ({error}): try `stack.py status`.") from error
    say(f"{arguments.service} of stack {stack.name}: {arguments.command} done")


def name_argument(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: use lower-case letters, digits and hyphens, at most 40")
    return text


def port_argument(text: str) -> int:
    if not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: a port is a number from 1024 to 65535")
    return int(text)


def pid_argument(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a pid is a positive number")
    return int(text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stack.py", description="The local stack: an AWS emulator and a real ClickHouse.")
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, handler: Any, text: str, named: bool = True) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(handler=handler)
        if named:
            command.add_argument("--name", type=name_argument, default="dev", help="which stack (default: dev)")
        return command

    command = add("up", up, "Start the stack, or answer at once if it runs.")
    command.add_argument("--lease", type=pid_argument, action="append", default=[], metavar="PID",
                         help="stop by itself when this process is gone; may be repeated")
    command.add_argument("--aws-port", type=port_argument, help="default: the port it had, else a free one")
    command.add_argument("--clickhouse-port", type=port_argument, help="default: the port it had, else a free one")
    command.add_argument("--json", action="store_true", help="print one JSON object to stdout")
    command = add("down", down, "Stop the stack; the data stays.")
    command.add_argument("--wipe", action="store_true", help="delete its data and its ports too")
    command = add("status", status, "Say what runs.")
    command.add_argument("--json", action="store_true")
    command = add("list", list_stacks, "List the stacks of this state directory.", named=False)
    command.add_argument("--json", action="store_true")
    for name, text in (("restart", "Stop and start one server."), ("stop", "Stop one server."), ("start", "Start one server.")):
        command = add(name, command_service, text)
        command.add_argument("service", choices=SERVICES)
        if name != "start":
            command.add_argument("--kill", action="store_true", help="end it with SIGKILL")
    return parser.parse_args()


def main() -> NoReturn:
    arguments = parse_arguments()
    try:
        arguments.handler(arguments)
    except StackError as error:
        sys.exit(f"stack.py: {error}")
    except KeyboardInterrupt:
        sys.exit("stack.py: interrupted; a stack that was being started goes on: see `stack.py status`")
    except OSError as error:
        sys.exit(f"stack.py: {error}. State directory: {environment.state_root()} (TOLLGATE_STATE_DIR chooses another)")
    sys.exit(0)


if __name__ == "__main__":
    main()
