"""The life of the local stack, against real processes: `python3 -m unittest discover localstack`.

State goes to a temporary directory; the environment is the repository's own (or TOLLGATE_VENV_DIR), since
installing it again would take longer than everything else here.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import environment
import process
import services
import supervisor

Json = dict[str, Any]
HERE = pathlib.Path(__file__).resolve().parent
LEDGER = "tollgate-local-event-ledger"


def query(stack: Json, statement: str, user: str = "default", password: str = "") -> str:
    parameters = urllib.parse.urlencode({"database": "tollgate", "user": user, "password": password})
    with services.HTTP.open(f"{stack['clickhouse_url']}/?{parameters}", data=statement.encode(), timeout=30) as answer:
        return str(answer.read().decode().strip())


def aws(stack: Json, target: str, body: Json) -> Json:
    """One call in the JSON protocol of DynamoDB and SQS; the emulator looks at the credential, not the signature."""
    service = "dynamodb" if target.startswith("DynamoDB") else "sqs"
    request = urllib.request.Request(
        stack["aws_endpoint_url"],
        data=json.dumps(body).encode(),
        headers={
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": target,
            "Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, "
            "SignedHeaders=host, Signature=0",
        },
    )
    with services.HTTP.open(request, timeout=30) as answer:
        content: Json = json.loads(answer.read() or b"{}")
    return content


class Lifecycle(unittest.TestCase):
    def setUp(self) -> None:
        self.state = pathlib.Path(tempfile.mkdtemp(prefix="tollgate-stack-test-"))
        self.environment = {
            **os.environ,
            "TOLLGATE_VENV_DIR": str(environment.venv_directory()),
            "TOLLGATE_STATE_DIR": str(self.state),
        }
        self.seen: list[process.Identity] = []
        self.addCleanup(self.leave_nothing)

    def leave_nothing(self) -> None:
        for directory in (self.state / "stacks").glob("*"):
            self.call("down", "--name", directory.name)
        left = process.wait_gone(self.seen, 10)
        shutil.rmtree(self.state)
        self.assertEqual(left, [], "processes were left running")

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(HERE / "stack.py"), *arguments],
            env=self.environment, capture_output=True, text=True, timeout=600, check=False,
        )

    def succeed(self, *arguments: str) -> str:
        result = self.call(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def up(self, *arguments: str) -> Json:
        stack: Json = json.loads(self.succeed("up", "--json", *arguments))
        self.seen += [process.identity(pid) for pid in (stack["supervisor_pid"], *stack["pids"].values())]
        return stack

    def services(self, name: str = "dev") -> dict[str, str]:
        conditions: dict[str, str] = json.loads(self.succeed("status", "--json", "--name", name))["services"]
        return conditions

    def wait_dead(self, pid: int) -> None:
        deadline = time.monotonic() + 30
        while process.started_at(pid) is not None:
            self.assertLess(time.monotonic(), deadline, f"pid {pid} still runs")
            time.sleep(0.05)

    def test_a_second_up_answers_the_same_and_starts_nothing(self) -> None:
        first = self.up()
        started = time.monotonic()
        self.assertEqual(self.up(), first)
        self.assertLess(time.monotonic() - started, 5)
        self.assertEqual(json.loads((self.state / "stacks/dev/stack.json").read_text()), first)

    def test_concurrent_ups_agree(self) -> None:
        with ThreadPoolExecutor() as pool:
            first, second = pool.map(lambda _: self.up(), range(2))
        self.assertEqual(first, second)

    def test_the_description_is_true(self) -> None:
        stack = self.up()
        self.assertEqual(query(stack, "SELECT currentDatabase()"), stack["clickhouse_database"])
        tables = aws(stack, "DynamoDB_20120810.ListTables", {})["TableNames"]
        for output in ("LedgerTableName", "MeterTableName", "SpacesTableName", "KeysTableName", "ReceiptsTableName"):
            self.assertIn(stack["outputs"][output], tables)
        keys = aws(stack, "DynamoDB_20120810.DescribeTable", {"TableName": LEDGER})["Table"]["GlobalSecondaryIndexes"]
        self.assertEqual([index["IndexName"] for index in keys], ["attention"])
        queue = aws(
            stack, "AmazonSQS.GetQueueAttributes",
            {"QueueUrl": stack["outputs"]["EventQueueUrl"], "AttributeNames": ["All"]},
        )["Attributes"]
        self.assertEqual(queue["VisibilityTimeout"], "60")
        self.assertEqual(json.loads(queue["RedrivePolicy"])["maxReceiveCount"], 1000)
        for output in ("EventQueueUrl", "DeadLetterQueueUrl"):
            self.assertTrue(stack["outputs"][output].startswith(stack["aws_endpoint_url"] + "/"))

    def test_servers_listen_on_loopback_only(self) -> None:
        stack = self.up()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Sends nothing; it only asks the system which address it would use outwards.
            try:
                probe.connect(("192.0.2.1", 9))
            except OSError:
                self.skipTest("this machine has no address but loopback")
            address = probe.getsockname()[0]
        for key in ("aws_endpoint_url", "clickhouse_url"):
            with self.assertRaises(OSError):
                socket.create_connection((address, int(stack[key].rpartition(":")[2])), timeout=2).close()

    def test_two_stacks_side_by_side_share_nothing(self) -> None:
        one, two = self.up("--name", "one"), self.up("--name", "two")
        query(one, "CREATE TABLE only_in_one (n UInt8) ENGINE = MergeTree ORDER BY n")
        self.assertEqual(query(two, "EXISTS TABLE only_in_one"), "0")
        self.succeed("down", "--name", "one")
        self.assertEqual(query(two, "SELECT 1"), "1")

    def test_a_taken_port_is_named_with_its_holder_and_the_mend(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            for option in ("--aws-port", "--clickhouse-port"):
                result = self.call("up", option, port)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"port {port} is taken by pid {os.getpid()}", result.stderr)
                self.assertIn(f"Choose another with {option}", result.stderr)

    def test_down_leaves_nothing_running_and_is_repeatable(self) -> None:
        stack = self.up()
        self.succeed("down")
        for pid in (stack["supervisor_pid"], *stack["pids"].values()):
            self.assertIsNone(process.started_at(pid))
        self.assertFalse((self.state / "stacks/dev/stack.json").exists())
        self.assertIn("not running", self.call("down").stderr)

    def test_down_ends_a_frozen_server(self) -> None:
        stack = self.up()
        os.kill(stack["pids"]["clickhouse"], signal.SIGSTOP)
        self.succeed("down")
        self.assertIsNone(process.started_at(stack["pids"]["clickhouse"]))

    def test_down_spares_a_stranger_that_has_a_recorded_pid(self) -> None:
        directory = self.state / "stacks" / "dev"
        directory.mkdir(parents=True)
        stranger: process.Identity = {"pid": os.getpid(), "started": "another time"}
        record = {"supervisor": stranger, "children": {"clickhouse": stranger}}
        (directory / "supervisor.json").write_text(json.dumps(record))
        self.assertIn("not running", self.call("down").stderr)

    def test_state_and_addresses_survive_down_and_up_but_not_wipe(self) -> None:
        first = self.up()
        key = {"pk": {"S": "space#00"}, "sk": {"S": "event"}}
        aws(first, "DynamoDB_20120810.PutItem", {"TableName": LEDGER, "Item": key})
        query(first, "CREATE TABLE kept (n UInt8) ENGINE = MergeTree ORDER BY n")
        query(first, "INSERT INTO kept VALUES (7)")
        self.succeed("down")
        second = self.up()
        self.assertEqual(second["outputs"], first["outputs"])
        self.assertEqual(second["clickhouse_url"], first["clickhouse_url"])
        self.assertEqual(aws(second, "DynamoDB_20120810.GetItem", {"TableName": LEDGER, "Key": key})["Item"], key)
        self.assertEqual(query(second, "SELECT n FROM kept"), "7")
        self.succeed("down", "--wipe")
        self.assertEqual(query(self.up(), "EXISTS TABLE kept"), "0")

    def test_queued_messages_survive_a_change_of_port(self) -> None:
        first = self.up()
        aws(first, "AmazonSQS.SendMessage", {"QueueUrl": first["outputs"]["EventQueueUrl"], "MessageBody": "kept"})
        self.succeed("down")
        with socket.socket() as taken:
            # The emulator's old connections may still be in TIME_WAIT.
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", urllib.parse.urlsplit(first["aws_endpoint_url"]).port))
            taken.listen()
            second = self.up()
        self.assertNotEqual(second["aws_endpoint_url"], first["aws_endpoint_url"])
        messages = aws(second, "AmazonSQS.ReceiveMessage", {"QueueUrl": second["outputs"]["EventQueueUrl"]})["Messages"]
        self.assertEqual([message["Body"] for message in messages], ["kept"])

    def test_a_killed_clickhouse_keeps_every_acknowledged_row(self) -> None:
        first = self.up()
        query(first, "CREATE TABLE acknowledged (n UInt32) ENGINE = MergeTree ORDER BY n")
        for number in range(50):
            query(first, f"INSERT INTO acknowledged VALUES ({number})")
        self.succeed("restart", "clickhouse", "--kill")
        second = self.up()
        self.assertEqual(second["clickhouse_url"], first["clickhouse_url"])
        self.assertNotEqual(second["pids"]["clickhouse"], first["pids"]["clickhouse"])
        self.assertEqual(second["pids"]["ministack"], first["pids"]["ministack"])
        self.assertEqual(query(second, "SELECT uniqExact(n) FROM acknowledged"), "50")

    def test_a_killed_emulator_comes_back_with_its_tables(self) -> None:
        first = self.up()
        self.succeed("restart", "ministack", "--kill")
        self.assertEqual(self.up()["outputs"], first["outputs"])
        self.assertIn(LEDGER, aws(first, "DynamoDB_20120810.ListTables", {})["TableNames"])

    def test_a_server_that_dies_stays_dead_until_it_is_restarted(self) -> None:
        stack = self.up()
        os.kill(stack["pids"]["clickhouse"], signal.SIGKILL)
        self.wait_dead(stack["pids"]["clickhouse"])
        time.sleep(2)
        self.assertEqual(self.services(), {"ministack": "running", "clickhouse": "dead"})
        self.succeed("restart", "clickhouse")
        self.assertEqual(self.services(), {"ministack": "running", "clickhouse": "running"})
        self.up()

    def test_stop_and_start_of_one_server(self) -> None:
        stack = self.up()
        self.succeed("stop", "clickhouse")
        self.assertEqual(self.services()["clickhouse"], "stopped")
        self.succeed("start", "clickhouse")
        self.assertEqual(query(stack, "SELECT 1"), "1")
        self.up()

    def test_a_killed_supervisor_leaves_no_orphans_and_up_recovers(self) -> None:
        stack = self.up()
        os.kill(stack["supervisor_pid"], signal.SIGKILL)
        for pid in stack["pids"].values():
            self.wait_dead(pid)
        self.assertEqual(json.loads(self.succeed("status", "--json"))["state"], "stopped")
        again = self.up()
        self.assertEqual(again["outputs"], stack["outputs"])
        self.assertNotEqual(again["supervisor_pid"], stack["supervisor_pid"])

    def test_up_recovers_while_a_frozen_server_still_holds_its_port(self) -> None:
        stack = self.up()
        os.kill(stack["pids"]["clickhouse"], signal.SIGSTOP)
        os.kill(stack["supervisor_pid"], signal.SIGKILL)
        self.wait_dead(stack["supervisor_pid"])
        self.assertEqual(self.up()["clickhouse_url"], stack["clickhouse_url"])

    def test_the_stack_stops_when_its_last_lease_is_gone(self) -> None:
        with subprocess.Popen(["sleep", "600"]) as one, subprocess.Popen(["sleep", "600"]) as two:
            stack = self.up("--lease", str(one.pid))
            self.up("--lease", str(two.pid))
            one.kill()
            one.wait()
            time.sleep(supervisor.LEASE_GRACE_SECONDS + 3)
            self.assertIsNotNone(process.started_at(stack["supervisor_pid"]), "it stopped while a lease was held")
            two.kill()
        for pid in (stack["supervisor_pid"], *stack["pids"].values()):
            self.wait_dead(pid)

    def test_a_stack_once_asked_for_without_a_lease_stays(self) -> None:
        with subprocess.Popen(["sleep", "600"]) as holder:
            stack = self.up("--lease", str(holder.pid))
            self.up()
            holder.kill()
        time.sleep(supervisor.LEASE_GRACE_SECONDS + 3)
        self.assertIsNotNone(process.started_at(stack["supervisor_pid"]))

    def test_a_failed_start_shows_why_and_leaves_nothing(self) -> None:
        copy = self.state / "checkout"
        shutil.copytree(HERE, copy / "localstack", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(HERE.parent / "infra", copy / "infra")
        command = [sys.executable, str(copy / "localstack" / "stack.py"), "up"]
        schema = copy / "localstack" / "schema.sql"
        schema.write_text("CREATE TABLE wrong (n NoSuchType) ENGINE = MergeTree ORDER BY n;")
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("ClickHouse refused `CREATE TABLE wrong", result.stderr)
        self.assertEqual(json.loads(self.succeed("status", "--json"))["state"], "stopped")
        schema.unlink()
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("schema.sql is missing", result.stderr)

    def test_wrong_usage(self) -> None:
        for arguments in (["up", "--name", "Not/Allowed"], ["up", "--aws-port", "80"], ["restart", "postgres"], []):
            self.assertEqual(self.call(*arguments).returncode, 2, arguments)
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assertIn(f"--lease {gone.pid}: no such process", self.call("up", "--lease", str(gone.pid)).stderr)

    def test_the_reader_can_read_and_not_write(self) -> None:
        stack = self.up()
        query(stack, "CREATE TABLE shelf (n UInt8) ENGINE = MergeTree ORDER BY n")
        self.assertEqual(query(stack, "SELECT count() FROM shelf", "reader", "reader"), "0")
        for password, code in (("reader", "164"), ("wrong", "516")):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                query(stack, "INSERT INTO shelf VALUES (1)", "reader", password)
            self.assertEqual(refused.exception.headers["X-ClickHouse-Exception-Code"], code)
            refused.exception.close()


class SplitStatements(unittest.TestCase):
    def test_only_semicolons_between_statements_split(self) -> None:
        sql = "-- one; two\nSELECT 'a;''b\\';', \"c;d\", `e;f` /* ; */;\n\nSELECT 2 -- ;\n;;"
        self.assertEqual(
            services.split_statements(sql), ["SELECT 'a;''b\\';', \"c;d\", `e;f`", "SELECT 2"]
        )


class Platform(unittest.TestCase):
    def test_a_processor_without_avx2_is_refused_before_anything_starts(self) -> None:
        with mock.patch("platform.system", return_value="Linux"), \
                mock.patch("platform.machine", return_value="x86_64"), \
                mock.patch("platform.libc_ver", return_value=("glibc", "2.36")), \
                mock.patch.object(pathlib.Path, "read_text", return_value="flags : sse2 avx"):
            with self.assertRaisesRegex(environment.StackError, "AVX2"):
                environment.check_platform()

    def test_a_platform_without_a_wheel_is_refused(self) -> None:
        with mock.patch("platform.system", return_value="Windows"), \
                mock.patch("platform.machine", return_value="AMD64"):
            with self.assertRaisesRegex(environment.StackError, "Windows on AMD64"):
                environment.check_platform()


if __name__ == "__main__":
    unittest.main()
