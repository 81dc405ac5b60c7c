"""Asks a `shardsim serve` as its page does, and as those ask who should get nothing.

usage: client_test.py SHARDSIM
"""
import base64
import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from served import LONG, SOME_TIME, PLAN, Served, text_of

SHARDSIM = ""
TINY = {"family": "mlp", "num_layers": 1, "hidden_size": 8, "ffn_hidden_size": 8, "vocab_size": 8}
SCHEDULE = "0F0,0F1,,0B0,0B1\n"


def run_json(text):
    """What `shardsim run` prints for this scenario."""
    return subprocess.run([SHARDSIM, "-", "--json"], input=text.encode(), stdout=subprocess.PIPE, check=False).stdout


def fullest_stage_of(text):
    """Bytes by category at the peak of the fullest stage, as a report of the command has them."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([SHARDSIM, "-", "-q", "--set", "output.report=run.html", "--out", folder], input=text.encode(),
                       check=True)
        page = (pathlib.Path(folder) / "run.html").read_text(encoding="utf-8")
    form, text = re.search(r'<script type="application/(json|gzip)" id="detail">(.*?)</script>', page, re.DOTALL).groups()
    detail = json.loads(gzip.decompress(base64.b64decode(text)) if form == "gzip" else text)
    return max(detail["stages"], key=lambda stage: stage["peak_bytes"])["at_peak"]


def errors_of(body):
    return [error["code"] for error in json.loads(body)["errors"]]


def listeners():
    """Addresses and ports on which this machine listens, as the kernel has them in hexadecimal."""
    found = []
    for table in ("tcp", "tcp6"):
        path = pathlib.Path("/proc/net") / table
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == "0A":
                found.append(fields[1])
    return found


class GoodTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served(SHARDSIM)

    @classmethod
    def tearDownClass(cls):
        cls.served.stop()

    def test_a_run_is_that_of_the_command_byte_by_byte(self):
        for text in (text_of(), text_of(system={"preset": "dgx-h100", "ranks": 4096},
                                         training={"global_batch_size": 1024, "micro_batch_size": 1})):
            self.assertEqual(self.served.ask("POST", "run", text), (200, run_json(text)))

    def test_the_page_shows_the_result_of_the_same_run_and_its_words(self):
        text = text_of(training={**PLAN["training"], "tokens_total": 1e12}, cost={"usd_per_gpu_hour": 2})
        status, body = self.served.ask("POST", "show", text)
        shown = json.loads(body)
        self.assertEqual(status, 200)
        self.assertEqual(shown["result"], json.loads(run_json(text)))
        self.assertEqual([tile["name"] for tile in shown["tiles"]],
                         ["Step time", "Time to train", "Cost", "Memory on the fullest GPU"])
        page = subprocess.run([SHARDSIM, "-"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()
        flat = re.sub(r"\s+", " ", page)
        values = [tile["value"] for tile in shown["tiles"]]
        for word in (values[0], values[1], values[2].removeprefix("about "), shown["tiles"][0]["model"], shown["verdict"]):
            self.assertIn(word, flat)
        times = sum(part["amount"] for part in shown["time"])
        self.assertAlmostEqual(times, shown["result"]["metrics"]["step_time_s"], delta=1e-6 * times)

    def test_the_memory_is_that_of_the_fullest_rank_by_category(self):
        for parallelism in ({"tp": 4, "zero_stage": 1}, {"tp": 4, "pp": 4, "zero_stage": 1}):
            text = text_of(parallelism=parallelism)
            status, body = self.served.ask("POST", "show", text)
            self.assertEqual(status, 200)
            shown = json.loads(body)
            names = [part["name"] for part in shown["memory"]]
            self.assertEqual(names, ["parameters", "gradients", "optimizer", "activations", "communication",
                                     "allocator, CUDA, NCCL"])
            metrics = shown["result"]["metrics"]
            amounts = [part["amount"] for part in shown["memory"]]
            self.assertEqual(sum(amounts[:-1]), metrics["memory.peak_bytes.max"])
            self.assertEqual(sum(amounts), metrics["memory.device_bytes.max"])
            self.assertEqual(amounts[:-1], fullest_stage_of(text))
            self.assertGreater(shown["device_bytes"], sum(amounts))

    def test_an_error_is_an_object_with_its_place(self):
        status, body = self.served.ask("POST", "run", text_of(parallelism={"tp": 3}))
        self.assertEqual(status, 400)
        error = json.loads(body)["errors"][0]
        self.assertEqual(error["file"], "scenario.json")
        self.assertTrue(error["message"])

    def test_page_script_style_and_presets_are_there(self):
        self.assertIn(b"serve.js", self.served.ask("GET", "")[1])
        self.assertEqual(self.served.ask("GET", "serve.js")[0], 200)
        self.assertIn(b"--time-0", self.served.ask("GET", "serve.css")[1])
        presets = json.loads(self.served.ask("GET", "presets")[1])
        self.assertIn("llama3-70b", [model["name"] for model in presets["models"]])
        self.assertIn("dgx-h100", [system["name"] for system in presets["systems"]])
        self.assertIn("1f1b", presets["schedules"])

    def test_a_search_streams_its_best_until_it_is_done(self):
        status, body = self.served.ask("POST", "plan", json.dumps({"model": "gpt2", "gpu": "h100", "gpus": 8}))
        self.assertEqual(status, 200)
        events = [event.split("\n", 1) for event in body.decode().split("\n\n") if event]
        names = [name.removeprefix("event: ") for name, _ in events]
        self.assertEqual(set(names[:-1]), {"best"})
        self.assertEqual(names[-1], "done")
        best = json.loads(events[-2][1].removeprefix("data: "))
        self.assertGreater(best["metrics"]["step_time_s"], 0)
        self.assertEqual(best["fields"]["tp"] * best["fields"]["pp"] * best["fields"]["cp"]
                         * best["fields"]["dp_replicate"] * best["fields"]["dp_shard"], 8)

    def test_a_search_says_what_is_wrong_with_its_words(self):
        _, body = self.served.ask("POST", "plan", json.dumps({"model": "/etc/passwd", "gpu": "h100", "gpus": 8}))
        self.assertTrue(body.startswith(b"event: error\n"))
        self.assertIn(b"E0366", body)
        self.assertNotIn(b"root:", body)

    def test_answers_forbid_what_a_page_does_not_need(self):
        answer = self.served.ask_raw(self.served.head(Connection="close")).decode()
        for field in ("Content-Security-Policy: default-src 'none';", "frame-ancestors 'none'", "X-Content-Type-Options: nosniff",
                      "Referrer-Policy: no-referrer", "Cache-Control: no-store"):
            self.assertIn(field, answer)
        self.assertNotIn("Access-Control", answer)

    def test_only_loopback_is_listened_on(self):
        port = f"{self.served.address[1]:04X}"
        self.assertEqual([own for own in listeners() if own.endswith(":" + port)], [f"0100007F:{port}"])
        if shutil.which("ss"):
            said = subprocess.run(["ss", "-ltnH", "sport", "=", f":{self.served.address[1]}"], stdout=subprocess.PIPE, check=True)
            lines = [line.split() for line in said.stdout.decode().splitlines()]
            print("ss -ltn:", *(" ".join(line) for line in lines))
            self.assertEqual([line[3] for line in lines], [f"127.0.0.1:{self.served.address[1]}"])


class RefusalTest(unittest.TestCase):
    """Each refusal has an empty body: it helps nobody."""

    @classmethod
    def setUpClass(cls):
        cls.served = Served(SHARDSIM)

    @classmethod
    def tearDownClass(cls):
        code, printed = cls.served.stop()
        # Nothing of the requests is written down.
        assert (code, printed) == (0, ""), (code, printed)

    def check_refused(self, data, status):
        answer = self.served.ask_raw(data)
        self.assertTrue(answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200])
        self.assertTrue(answer.endswith(b"\r\n\r\n"), "it has a body")

    def test_another_host(self):
        for host in ("evil.example", "evil.example:80", f"evil.example:{self.served.address[1]}", "127.0.0.1", ""):
            self.check_refused(self.served.head(Host=host), 403)
        self.check_refused(self.served.head(Host=None), 403)
        self.check_refused(self.served.head()[:-2] + b"Host: evil.example\r\n\r\n", 403)

    def test_localhost_is_a_name_of_its_own(self):
        port = self.served.address[1]
        self.assertIn(b" 200 ", self.served.ask_raw(self.served.head(Host=f"localhost:{port}", Connection="close"))[:20])

    def test_a_foreign_origin(self):
        for origin in ("http://evil.example", "null", "https://" + self.served.host, "file://"):
            self.check_refused(self.served.head(Origin=origin), 403)
        self.assertEqual(self.served.ask("GET", "", Origin="http://" + self.served.host)[0], 200)

    def test_no_token_or_another(self):
        for path in ("/", "/run", "/" + "0" * 32 + "/", self.served.base[:-2] + "/", "/.." + self.served.base,
                     "/%2e%2e/", "http://" + self.served.host + self.served.base, "*"):
            self.check_refused(f"GET {path} HTTP/1.1\r\nHost: {self.served.host}\r\n\r\n".encode(), 403)

    def test_paths_and_methods_that_are_not_there(self):
        for name in ("x", "../", "serve.js/..", "run?a=1", "presets%00", "..%2f..%2fetc/passwd"):
            self.check_refused(self.served.head(name=name), 404)
        for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "HEAD", "BREW"):
            self.check_refused(self.served.head(method), 405)
        self.check_refused(self.served.head("GET", "run"), 405)

    def test_bodies_that_two_readers_would_end_at_two_places(self):
        json_type = {"Content_Type": "application/json"}
        chunked = self.served.head("POST", "run", Transfer_Encoding="chunked", **json_type)
        self.check_refused(chunked + b"0\r\n\r\n", 411)
        both = self.served.head("POST", "run", Transfer_Encoding="chunked", Content_Length="5", **json_type)
        self.assertIn(both and self.served.ask_raw(both + b"0\r\n\r\n")[:12], (b"HTTP/1.1 400", b"HTTP/1.1 411"))
        for lengths in (("5", "6"), ("-1", None), ("0x5", None), ("5, 6", None)):
            data = self.served.head("POST", "run", Content_Length=lengths[0], **json_type)
            if lengths[1]:
                data = data[:-2] + f"Content-Length: {lengths[1]}\r\n\r\n".encode()
            self.check_refused(data + b"{}{}{}", 400)

    def test_forms_of_other_pages(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            self.check_refused(self.served.head("POST", "run", Content_Length="2", Content_Type=kind) + b"{}", 415)

    def test_heads_and_bodies_that_are_too_large(self):
        json_type = {"Content_Type": "application/json"}
        self.check_refused(self.served.head(X="x" * 20000), 431)
        self.check_refused(self.served.head("POST", "run", Content_Length=str((1 << 20) + 1), **json_type), 413)
        status, body = self.served.ask("POST", "run", " " * (1 << 20))
        self.assertEqual((status, len(errors_of(body)) > 0), (400, True))

    def test_what_is_no_request(self):
        for data in (b"\r\n\r\n\r\nx\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n",
                     f"GET {self.served.base} HTTP/1.0\r\nHost: {self.served.host}\r\n\r\n".encode()):
            answer = self.served.ask_raw(data)
            self.assertIn(answer[:12], (b"HTTP/1.1 400", b""), answer[:100])

    def test_scenarios_that_would_leave_the_process(self):
        for changes, code in (({"output": {"report": "a.html"}}, "E0362"), ({"execution": {"tensors": "real"}, "model": TINY, "parallelism": {}}, "E0361")):
            status, body = self.served.ask("POST", "run", text_of(**changes))
            self.assertEqual((status, errors_of(body)), (400, [code]))


class FolderTest(unittest.TestCase):
    def test_files_are_read_below_the_folder_alone(self):
        with tempfile.TemporaryDirectory() as parent:
            own, other = pathlib.Path(parent) / "own", pathlib.Path(parent) / "other"
            own.mkdir()
            other.mkdir()
            (own / "mine.csv").write_text(SCHEDULE, encoding="ascii")
            (other / "secret.csv").write_text("secret,words\n", encoding="ascii")
            (own / "link.csv").symlink_to(other / "secret.csv")
            (own / "folder").symlink_to(other)

            def code_of(served, file):
                status, body = served.ask("POST", "run", text_of(
                    parallelism={"pp": 2, "schedule": "file", "schedule_file": file}))
                self.assertEqual(status, 400)
                self.assertNotIn(b"secret", body.replace(file.encode(), b""))
                self.assertNotIn(str(parent).encode(), body.replace(file.encode(), b""))
                return errors_of(body)[0]

            tricks = ("link.csv", "folder/secret.csv", "../other/secret.csv", "/etc/passwd", str(other / "secret.csv"),
                      "../../../../../../../../etc/passwd", "none.csv")
            with Served(SHARDSIM, "--folder", str(own)) as served:
                self.assertNotIn(code_of(served, "mine.csv"), ("E0008", "E0110"))
                for file in tricks:
                    self.assertIn(code_of(served, file), ("E0008", "E0110"), file)
            with Served(SHARDSIM) as served:
                for file in ("mine.csv", *tricks):
                    self.assertIn(code_of(served, file), ("E0008", "E0110"), file)


class HoldingTest(unittest.TestCase):
    """Clients that try to keep the process for themselves."""

    def test_slow_clients_are_cut(self):
        with Served(SHARDSIM) as served:
            for data in (b"GET ", served.head("POST", "run", Content_Length="100", Content_Type="application/json") + b"{"):
                with socket.create_connection(served.address) as connection:
                    connection.sendall(data)
                    begin = time.monotonic()
                    connection.settimeout(30)
                    self.assertEqual(connection.recv(1), b"")
                    self.assertLess(time.monotonic() - begin, 10)

    def test_strangers_do_not_take_all_places(self):
        with Served(SHARDSIM) as served:
            strangers = [socket.create_connection(served.address) for _ in range(200)]
            try:
                begin = time.monotonic()
                self.assertEqual(served.ask("POST", "run", text_of())[0], 200)
                self.assertLess(time.monotonic() - begin, 1.0 + 4 * os.getloadavg()[0] / os.cpu_count())
                fds = len(os.listdir(f"/proc/{served.process.pid}/fd"))
                self.assertLess(fds, 64 + 40)
            finally:
                for stranger in strangers:
                    stranger.close()

    def test_a_closed_client_ends_its_work(self):
        plan = json.dumps({"model": "deepseek-v3", "gpu": "h100", "gpus": 1024})
        with Served(SHARDSIM, "--jobs", "2") as served:
            for name, body in (("plan", plan), ("run", LONG)):
                connection = socket.create_connection(served.address)
                connection.sendall(served.head("POST", name, Content_Length=str(len(body)), Content_Type="application/json")
                                   + body.encode())
                served.wait_until_busy(0.5)
                connection.close()
                self.assertTrue(served.is_idle_within(1.0 + os.getloadavg()[0] / os.cpu_count()), name)

    def test_a_newer_request_of_a_page_replaces_the_one_that_waits(self):
        with Served(SHARDSIM, "--jobs", "1") as served, concurrent.futures.ThreadPoolExecutor(4) as pool:
            with socket.create_connection(served.address) as holder:
                holder.sendall(served.head("POST", "run", Content_Length=str(len(LONG)), Content_Type="application/json")
                               + LONG.encode())
                served.wait_until_busy(0.2)
                older = pool.submit(served.ask, "POST", "run", SOME_TIME, Shardsim_Page="a")
                time.sleep(0.3)
                newer = pool.submit(served.ask, "POST", "run", SOME_TIME.replace("a plan", "newer"), Shardsim_Page="a")
                status, body = older.result(timeout=60)
                self.assertEqual((status, errors_of(body)), (400, ["E0364"]))
            status, body = newer.result(timeout=60)
            self.assertEqual((status, json.loads(body)["scenario"]["name"]), (200, "newer"))

    def test_too_many_requests_are_told_so_and_leave_the_others_alone(self):
        data = SOME_TIME.encode()
        with Served(SHARDSIM, "--jobs", "1") as served:
            head = served.head("POST", "run", Content_Length=str(len(data)), Content_Type="application/json", Connection="close")
            with socket.create_connection(served.address) as holder:
                holder.sendall(served.head("POST", "run", Content_Length=str(len(LONG)), Content_Type="application/json")
                               + LONG.encode())
                served.wait_until_busy(0.2)
                waiting = [socket.create_connection(served.address) for _ in range(40)]
                for one in waiting:
                    one.sendall(head + data)
                time.sleep(0.5)
            answers = []
            for one in waiting:
                answer = b""
                while part := one.recv(65536):
                    answer += part
                answers.append(answer[9:12])
                one.close()
            self.assertEqual({answer: answers.count(answer) for answer in answers}, {b"200": 32, b"503": 8})

    def test_clients_that_left_keep_nobody_out(self):
        data = SOME_TIME.encode()
        with Served(SHARDSIM, "--jobs", "1") as served:
            head = served.head("POST", "run", Content_Length=str(len(data)), Content_Type="application/json")
            with socket.create_connection(served.address) as holder:
                holder.sendall(served.head("POST", "run", Content_Length=str(len(LONG)), Content_Type="application/json")
                               + LONG.encode())
                served.wait_until_busy(0.2)
                for _ in range(50):
                    with socket.create_connection(served.address) as one:
                        one.sendall(head + data)
                        time.sleep(0.02)
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    good = pool.submit(served.ask, "POST", "run", SOME_TIME)
                    time.sleep(0.3)
                    holder.close()
                    self.assertEqual(good.result(timeout=60)[0], 200)

    def test_short_runs_wait_for_no_long_one(self):
        search = json.dumps({"model": "deepseek-v3", "gpu": "h100", "gpus": 1024})
        with Served(SHARDSIM, "--jobs", "1") as served:
            for name, body in (("run", LONG), ("plan", search)):
                with socket.create_connection(served.address) as holder, socket.create_connection(served.address) as next_one:
                    for one in (holder, next_one):
                        one.sendall(served.head("POST", name, Content_Length=str(len(body)), Content_Type="application/json")
                                    + body.encode())
                    served.wait_until_busy(0.2)
                    for _ in range(3):
                        status, answer = served.ask("POST", "run", text_of())
                        self.assertEqual(status, 200)
                        self.assertGreater(json.loads(answer)["metrics"]["step_time_s"], 0)
                    # The long one has gone on meanwhile, and its client has no answer.
                    holder.settimeout(0.01)
                    with self.assertRaises(TimeoutError):
                        while part := holder.recv(65536):
                            self.assertNotIn(b"event: done", part)
                self.assertTrue(served.is_idle_within(2.0 + os.getloadavg()[0] / os.cpu_count()), name)

    def test_it_ends_while_it_works(self):
        with Served(SHARDSIM) as served:
            with socket.create_connection(served.address) as holder:
                holder.sendall(served.head("POST", "run", Content_Length=str(len(LONG)), Content_Type="application/json")
                               + LONG.encode())
                time.sleep(0.3)
                begin = time.monotonic()
                self.assertEqual(served.stop(), (0, ""))
                self.assertLess(time.monotonic() - begin, 10)


class OptionsTest(unittest.TestCase):
    def test_without_a_token_only_by_wish_and_on_loopback(self):
        with Served(SHARDSIM, "--no-token") as served:
            self.assertEqual(served.base, "/")
            self.assertEqual(served.ask("GET", "")[0], 200)
            self.assertEqual(served.ask("GET", "", Origin="http://evil.example")[0], 403)
        with Served(SHARDSIM) as served:
            self.assertRegex(served.base, r"^/[0-9a-f]{32}/$")

    def test_addresses_that_are_none_or_all(self):
        for address in ("0.0.0.0", "::", "localhost", "x"):
            done = subprocess.run([SHARDSIM, "serve", "--port", "0", "--address", address], capture_output=True, text=True,
                                  check=False, timeout=60)
            self.assertEqual((done.returncode, done.stderr.startswith("error[E1412]")), (2, True), done.stderr)

    def test_a_port_that_is_taken_and_a_folder_that_is_none(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for words, code in ((["--port", str(taken.getsockname()[1])], "E1413"), (["--folder", "/no/such"], "E1414")):
                done = subprocess.run([SHARDSIM, "serve", *words], capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual((done.returncode, done.stderr.split("]")[0]), (2, f"error[{code}"))

    def test_another_interface_only_by_wish_and_with_a_warning(self):
        # All of 127/8 is loopback, so another address is needed: that of a name of this machine.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # Nothing is sent.
                own = probe.getsockname()[0]
            except OSError:
                self.skipTest("this machine has no other interface")
        with Served(SHARDSIM, "--address", own) as served:
            self.assertEqual(served.ask("GET", "")[0], 200)
            self.assertIn("warning: other machines", served.stop()[1])
        done = subprocess.run([SHARDSIM, "serve", "--port", "0", "--address", own, "--no-token"], capture_output=True,
                              text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr.startswith("error[E1410]")), (2, True))


if __name__ == "__main__":
    SHARDSIM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
