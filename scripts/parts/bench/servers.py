"""Everything that is started for a run, and stopped after it."""
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from . import machine, measure


# 32 bytes in base64.
MASTER_KEY = "bWFzdGVyLWtleS1vZi10aGUtYmVuY2htYXJrLXJ1biE="


class Target:
    """Something to be driven: where, how, and which processes are its own."""

    def __init__(self, name, port, pids, relayed):
        self.name, self.port, self.relayed = name, port, relayed
        self.pids = pids
        self.token = None

    def arguments(self, kind):
        """The driver's arguments for one kind of answer (`small`, `burst`, `paced/COUNT/MS`)."""
        arguments = ["--address", f"127.0.0.1:{self.port}"]
        if self.relayed:
            arguments += ["--model", kind.replace("/", "-"), "--token", self.token]
        else:
            arguments += ["--path", f"/{kind}/v1/chat/completions"]
        if kind != "small":
            arguments.append("--stream")
        return arguments + (["--watch", ",".join(map(str, self.pids))] if self.pids else [])


class Stage:
    """Starts processes in a directory and ends them all at the end."""

    def __init__(self, directory):
        self.directory = directory
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, how in reversed(self.running):
            process.send_signal(how)
        for process, _ in reversed(self.running):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name, command, how=signal.SIGTERM, **more):
        log = open(os.path.join(self.directory, f"{name.replace(chr(47), chr(45))}.log"), "w")
        more.setdefault("stdout", log)
        process = subprocess.Popen(command, stderr=log, cwd=self.directory, **more)
        self.running.append((process, how))
        return process

    def place(self, name):
        path = os.path.join(self.directory, name)
        os.mkdir(path)
        return path

    def log(self, name):
        return open(os.path.join(self.directory, f"{name.replace(chr(47), chr(45))}.log")).read()

    def upstream(self, load):
        process = self.start("upstream", [load, "upstream"], stdout=subprocess.PIPE, text=True)
        return Target("direct", int(process.stdout.readline()), [], relayed=False)

    def nginx(self, upstream):
        port, prefix = free_port(), self.place("nginx")
        config = os.path.join(prefix, "nginx.conf")
        with open(config, "w") as file:
            file.write(NGINX.format(port=port, upstream=upstream.port, prefix=prefix))
        master = self.start("nginx", ["nginx", "-p", prefix, "-c", config, "-e", f"{prefix}/error.log"], signal.SIGQUIT)
        wait_for("nginx", master, lambda: connects(port), self)
        return Target("nginx", port, children(master.pid), relayed=False)

    def postgres(self):
        port, place = free_port(), self.place("postgres")
        if os.geteuid() == 0:
            shutil.chown(place, "postgres")
        data = os.path.join(place, "data")
        machine.run(machine.postgres("initdb") + ["-D", data, "-A", "trust", "-U", "postgres", "--locale=C.UTF-8"])
        # Durable as in production: the relay's writes are off the request path and must show what they cost.
        command = machine.postgres("postgres") + ["-D", data, "-p", str(port), "-c", "unix_socket_directories="]
        process = self.start("postgres", command, signal.SIGINT)
        wait_for("postgres", process, lambda: "ready to accept" in self.log("postgres"), self)
        return f"postgres://postgres@127.0.0.1:{port}/postgres"

    def redis(self):
        port, place = free_port(), self.place("redis")
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", place]
        wait_for("redis", self.start("redis", command), lambda: connects(port), self)
        return f"redis://127.0.0.1:{port}"

    def relay(self, name, upstream, load, tollway, *options, database=None, **more):
        port, place = free_port(), self.place(name.replace(" ", "-").replace("/", "-"))
        os.chmod(place, 0o700)
        kinds = ",".join(sorted({kind for _, kind, _ in measure.LOADS} | {measure.HELD}))
        token = machine.run([
            load, "setup", "--database", database or f"sqlite:{place}/tollway.db", "--master-key", MASTER_KEY,
            "--upstream-port", str(upstream.port), "--kinds", kinds, *options,
        ]).strip()
        environment = {
            "PATH": os.environ["PATH"],
            "TOLLWAY_DATA_DIR": place,
            "TOLLWAY_SERVER_LISTEN": f"127.0.0.1:{port}",
            "TOLLWAY_SERVER_WORKERS": "1",
            "TOLLWAY_NET_ALLOW": "127.0.0.0/8",
            "TOLLWAY_LOG_FORMAT": "json",
            "TOLLWAY_VAULT_MASTER_KEY": MASTER_KEY,
            **({"DATABASE_URL": database} if database else {}),
            **more,
        }
        process = self.start(name, [tollway, "serve"], env=environment)
        wait_for(name, process, lambda: is_ready(port), self)
        target = Target(name, port, [process.pid], relayed=True)
        target.token = token
        return target


def targets(stage, upstream, load, tollway):
    """Every target by name, each made when asked for."""
    def production():
        return stage.relay(
            "relay, Postgres and Redis", upstream, load, tollway,
            database=stage.postgres(), REDIS_URL=stage.redis(),
        )

    return [
        ("direct", lambda: upstream),
        ("nginx", lambda: stage.nginx(upstream)),
        ("alone", lambda: stage.relay("relay alone", upstream, load, tollway)),
        ("production", production),
        ("http2", lambda: stage.relay("relay alone, HTTP/2 client", upstream, load, tollway, "--http2")),
    ]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def is_ready(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).status == 200
    except (OSError, urllib.error.HTTPError):
        return False


def wait_for(name, process, is_so, stage):
    until = time.monotonic() + 30
    while not is_so():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"{name} does not get ready:\n{stage.log(name)}")
        time.sleep(0.02)


def children(pid):
    """The workers of a master process, once they are there."""
    path = f"/proc/{pid}/task/{pid}/children"
    while not (found := open(path).read().split()):
        time.sleep(0.02)
    return [int(child) for child in found]


NGINX = """
daemon off;
worker_processes 1;
pid {prefix}/nginx.pid;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    tcp_nodelay on;
    keepalive_requests 1000000000;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    upstream answers {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=8192;
        location / {{
            proxy_pass http://answers;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 120s;
        }}
    }}
}}
"""
