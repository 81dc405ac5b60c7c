"""10,000 hostile requests to `shardsim serve`, best to the build with AddressSanitizer: fuzzed bodies,
large scenarios, slow clients, path tricks, wrong Hosts, foreign Origins, no token, two lengths of a body,
and clients that leave early.

usage: serve_hostile.py SHARDSIM [--jobs N] [--count N] [--seed N] [--memory-mib N] [--good-s S]

Then the server still lives and has said nothing, a good client is answered within S seconds (1), its
memory has stayed under the limit, and no answer had a word of the file outside its folder.
`./dev sanitize` builds such a program: tests/campaigns/sanitize.sh --command prints its path.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from served import PLAN, Served, text_of  # noqa: E402

CLIENTS = 16
SECRET = "a-word-that-no-answer-may-have"
IMPATIENCE_S = 0.5  # A hostile client leaves then.
JSON = {"Content_Type": "application/json"}
WORDS = ["", "a", "0", "-1", "1e308", "null", "\u0000", "../" * 30 + "etc/passwd", "%s%n", "\U0001f600", "x" * 3000]
NUMBERS = [0, -1, 1, 2, 3, 7, 8, 64, 1000, 65536, 65537, 2 ** 31, 2 ** 53, 2 ** 63, -2 ** 63, 1e308, 1e-308, 0.5, float("inf")]
FIELDS = {
    "model": ["num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "vocab_size", "seq_len",
              "num_experts", "num_experts_per_token", "moe_popularity_file", "preset", "family"],
    "system": ["nodes", "ranks", "gpus_per_node", "preset", "software"],
    "parallelism": ["tp", "pp", "cp", "ep", "vpp", "dp_replicate", "dp_shard", "zero_stage", "schedule", "schedule_file", "data_parallel",
                    "sync_period", "gradient_compression"],
    "training": ["global_batch_size", "micro_batch_size", "precision", "recompute", "optimizer", "tokens_total"],
    "execution": ["steps", "engine", "fold", "tensors", "backend", "seed"],
    "output": ["report", "trace", "csv", "result"],
    "faults": ["gpu_mtbf_hours", "restart_s", "draws"],
}
SCHEDULES = ["1f1b", "interleaved_1f1b", "zb_h1", "zb_v", "dualpipe_v", "gpipe", "file"]


class Hostile:
    """One client. Each method sends one request, and returns what was answered."""

    def __init__(self, served, secret, seed):
        self.served, self.secret, self.random = served, secret, random.Random(seed)

    def exchange(self, data, patience_s=IMPATIENCE_S, parts=1):
        """All that is answered until the client loses its patience."""
        answer = b""
        with contextlib.suppress(OSError), socket.create_connection(self.served.address, timeout=10) as connection:
            connection.settimeout(patience_s)
            size = max(1, len(data) // parts)
            for start in range(0, len(data), size):
                connection.sendall(data[start:start + size])
            while part := connection.recv(65536):
                answer += part
        return answer

    def post(self, name, body, **headers):
        body = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
        return self.exchange(self.served.head("POST", name, **{"Content_Length": str(len(body)), **JSON, **headers}) + body)

    def value(self, key):
        draw = self.random.random()
        if key.endswith("_file") and draw < 0.8:
            return self.random.choice([str(self.secret), "../outside/secret.csv", "link.csv", "folder/secret.csv", "/etc/passwd",
                                       "../../../../../etc/passwd", "/dev/zero", "/proc/self/environ", "fifo"])
        if key == "schedule" and draw < 0.8:
            return self.random.choice(SCHEDULES)
        if draw < 0.7:
            return self.random.choice(NUMBERS)
        if draw < 0.8:
            return self.random.choice(WORDS)
        return self.random.choice([None, True, [], {}, [1] * 50, {"value": 3, "source": "x"}, {"a": {"b": {}}}])

    def odd_scenario(self):
        scenario = json.loads(json.dumps(PLAN))
        for _ in range(self.random.randint(1, 4)):
            section = self.random.choice(list(FIELDS))
            key = self.random.choice(FIELDS[section])
            scenario.setdefault(section, {})[key] = self.value(key)
        return json.dumps(scenario)

    def fuzzed_fields(self):
        return self.post(self.random.choice(["run", "show"]), self.odd_scenario())

    def fuzzed_bytes(self):
        body = bytearray(self.odd_scenario().encode())
        for _ in range(self.random.randint(1, 20)):
            place = self.random.randrange(len(body))
            body[place:place + self.random.randint(0, 3)] = self.random.randbytes(self.random.randint(0, 5))
        return self.post(self.random.choice(["run", "show", "plan"]), bytes(body))

    def deep_body(self):
        count = self.random.choice([100, 10_000, 500_000])
        return self.post("run", self.random.choice(["[", '{"a":', "[[", '"\\u']) * count)

    def large_scenario(self):
        """Legal, or nearly: as much work as the limits allow."""
        return self.post("run", text_of(
            model={"preset": self.random.choice(["llama3-8b", "llama3-405b", "deepseek-v3", "mixtral-8x7b", "nemotron-h-56b"])},
            system={"preset": "dgx-h100", "ranks": self.random.choice([8, 64, 256, 1024, 8192, 65536])},
            parallelism={"tp": self.random.choice([1, 2, 8]), "pp": self.random.choice([1, 2, 4, 16]), "zero_stage": self.random.choice([0, 1])},
            training={"global_batch_size": self.random.choice([2 ** 10, 2 ** 14, 2 ** 17]), "micro_batch_size": 1},
            execution={"fold": self.random.choice(["off", "auto"]), "engine": self.random.choice(["auto", "run", "replay"]),
                       "steps": self.random.choice([1, 3])}))

    def odd_search(self):
        search = {"model": "llama3-70b", "gpu": "h100", "gpus": self.random.choice([8, 100, 1000, 65536])}
        key = self.random.choice(["model", "gpu", "gpus", "seq_len", "global_batch_size", "precision", "tokens", "x"])
        search[key] = self.random.choice([self.value(key), str(self.secret), "scenarios/quickstart.json"])
        return self.post("plan", json.dumps(search))

    def wrong_host(self):
        host = self.random.choice(["evil.example", "127.0.0.1", "", "localhost:1", "[::1]:80", "127.0.0.1:99999", "\xff"])
        return self.must_be(403, 400, self.exchange(self.served.head(Host=host)))

    def foreign_origin(self):
        origin = self.random.choice(["null", "http://evil.example", "https://127.0.0.1", "file://", "http://127.0.0.1:1"])
        return self.must_be(403, 400, self.post("run", text_of(), Origin=origin))

    def no_token(self):
        path = self.random.choice(["/", "/run", "/" + "f" * 32 + "/run", "/../", "//", "/" + self.served.base[1:20], "/%00", "/\x7f"])
        return self.must_be(403, 400, self.exchange(f"GET {path} HTTP/1.1\r\nHost: {self.served.host}\r\n\r\n".encode()))

    def path_trick(self):
        name = self.random.choice(["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "serve.js/../../x", "./", "%2e", "run%00", "presets;a", "C:\\",
                                   "file:///etc/passwd", str(self.secret)])
        return self.must_be(404, 400, self.exchange(self.served.head(name=name)))

    def two_lengths(self):
        body = text_of()
        head = self.served.head("POST", "run", Content_Length=str(len(body)), **JSON)
        more = self.random.choice(["Transfer-Encoding: chunked", "Content-Length: 3", "Transfer-Encoding: identity", "Content-Length: -1"])
        return self.must_be(400, 411, self.exchange(head[:-2] + more.encode() + b"\r\n\r\n" + body.encode()))

    def odd_bytes(self):
        return self.exchange(self.random.randbytes(self.random.randint(1, 3000)) + b"\r\n\r\n")

    def large_head(self):
        return self.exchange(self.served.head(**{f"X{i}": "y" * 100 for i in range(self.random.choice([10, 200, 2000]))}))

    def slow_client(self):
        data = self.served.head("POST", "run", Content_Length="1000000", **JSON) + b"{" * 10
        return self.exchange(data[:self.random.randint(1, len(data))])

    def leaver(self):
        """Leaves while its work goes on."""
        body = text_of() if self.random.random() < 0.5 else json.dumps({"model": "llama3-70b", "gpu": "h100", "gpus": 512})
        name = "plan" if "gpus" in body else "run"
        head = self.served.head("POST", name, Content_Length=str(len(body)), **JSON)
        with contextlib.suppress(OSError), socket.create_connection(self.served.address, timeout=10) as connection:
            connection.sendall(head + body.encode())
            time.sleep(self.random.random() / 20)
        return b""

    def pipeliner(self):
        return self.exchange(self.served.head() * self.random.randint(2, 50), parts=self.random.randint(1, 5))

    def must_be(self, status, other, answer):
        if answer and answer[9:12] not in (str(status).encode(), str(other).encode()):
            raise AssertionError(f"not {status}: {answer[:200]}")
        return answer


KINDS = ["fuzzed_fields"] * 5 + ["fuzzed_bytes"] * 3 + ["wrong_host", "foreign_origin", "no_token", "path_trick", "two_lengths", "odd_bytes"] * 2 + [
    "deep_body", "large_scenario", "odd_search", "large_head", "slow_client", "leaver", "pipeliner"]


def good_client_s(served):
    begin = time.monotonic()
    status, body = served.ask("POST", "run", text_of())
    if status != 200:
        sys.exit(f"the good client got {status}: {body[:300]}")
    return time.monotonic() - begin


def make_folders(parent):
    own, outside = parent / "own", parent / "outside"
    own.mkdir()
    outside.mkdir()
    secret = outside / "secret.csv"
    secret.write_text(SECRET + "\n", encoding="ascii")
    (own / "link.csv").symlink_to(secret)
    (own / "folder").symlink_to(outside)
    os.mkfifo(own / "fifo")
    return own, secret


def attack(served, secret, count, seed):
    """(how many of each kind, how long good clients took meanwhile)"""
    done, good = collections.Counter(), []
    lock, over = threading.Lock(), threading.Event()

    def hostile_client(index):
        hostile = Hostile(served, secret, seed + index)
        for _ in range(count // CLIENTS):
            kind = hostile.random.choice(KINDS)
            answer = getattr(hostile, kind)()
            if SECRET.encode() in answer or b"root:x:" in answer:
                raise AssertionError(f"{kind} has read a file: {answer[:500]}")
            with lock:
                done[kind] += 1

    def good_clients():
        while not over.wait(2):
            good.append(good_client_s(served))

    with concurrent.futures.ThreadPoolExecutor(CLIENTS + 1) as pool:
        watch = pool.submit(good_clients)
        clients = [pool.submit(hostile_client, index) for index in range(CLIENTS)]
        try:
            for client in clients:
                client.result()
        finally:
            over.set()
        watch.result()
    return done, good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shardsim")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory-mib", type=float, default=2048)
    parser.add_argument("--good-s", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as parent:
        own, secret = make_folders(pathlib.Path(parent))
        served = Served(given.shardsim, "--folder", str(own), "--jobs", str(given.jobs))
        begin = time.monotonic()
        try:
            done, good = attack(served, secret, given.count, given.seed)
        except (AssertionError, OSError, SystemExit) as error:
            time.sleep(1)
            lives = served.process.poll() is None
            sys.exit(f"{error!r}; the server {'lives' if lives else 'ended'}: {served.stop()}")
        took_s = time.monotonic() - begin
        time.sleep(2)
        after_s, memory = good_client_s(served), served.memory_mib()
        ended = served.stop()
    print(f"{sum(done.values())} requests in {took_s:.0f} s: " + ", ".join(f"{kind} {number}" for kind, number in sorted(done.items())))
    print(f"a good client: {after_s:.2f} s; meanwhile at most {max(good, default=0):.2f} s; most memory {memory:.0f} MiB")
    if ended != (0, ""):
        sys.exit(f"the server ended with {ended[0]} and said: {ended[1][:4000]}")
    if after_s > given.good_s or memory > given.memory_mib:
        sys.exit("too slow, or too much memory")


if __name__ == "__main__":
    main()
