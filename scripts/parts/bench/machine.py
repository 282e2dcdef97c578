"""This machine: what is installed, how the programs are built, what the page says of it."""
import glob
import json
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

PACKAGES = {
    "nginx": ("nginx", "nginx-light"),
    "strace": ("strace", "strace"),
    "postgres": ("initdb", "postgresql /usr/lib/postgresql/*/bin"),
    "redis": ("redis-server", "redis-server"),
}


def need(*names):
    """Installs what is missing, by the same helper as scripts/test."""
    for name in names:
        program, package = PACKAGES[name]
        run(["bash", "-ec", f". scripts/parts/need; need {program} {package}"])


def run(command, **more):
    """Runs to the end; a failure ends the benchmark with what was said."""
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} fails:\n{done.stdout}{done.stderr}")
    return done.stdout


def build():
    """Builds driver and relay for release; returns their paths."""
    print("building …", flush=True)
    said = run(["cargo", "build", "--release", "--bin", "tollway", "--bench", "load", "--message-format=json"])
    found = {}
    for line in said.splitlines():
        made = json.loads(line)
        if made.get("executable"):
            found[made["target"]["name"]] = made["executable"]
    return found["load"], found["tollway"]


def postgres(program):
    """The newest installed Postgres's program, run as `postgres` where we are root."""
    candidates = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{program}"), reverse=True) + [program]
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]
    return (as_user if os.geteuid() == 0 else []) + candidates[:1]


def describe():
    """What a reader must know of the machine, as (name, value)."""
    cpu = re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo").read())
    release = re.search(r'PRETTY_NAME="(.*)"', open("/etc/os-release").read())
    nginx = subprocess.run(["nginx", "-v"], text=True, capture_output=True).stderr.strip().split("/")[-1]
    redis = re.search(r"v=(\S+)", run(["redis-server", "--version"]))
    return [
        ("processor", f"{os.cpu_count()} × {cpu.group(1) if cpu else 'unknown'}"),
        ("system", f"{release.group(1) if release else 'unknown'}, Linux {os.uname().release}"),
        ("rustc", run(["rustc", "--version"]).split()[1]),
        ("nginx", nginx),
        ("Postgres", run(postgres("postgres") + ["--version"]).split()[2]),
        ("Redis", redis.group(1) if redis else "unknown"),
        ("commit", run(["git", "describe", "--always", "--dirty"]).strip()),
    ]
