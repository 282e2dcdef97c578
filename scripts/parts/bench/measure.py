"""The runs, and their medians."""
import json
import re
import signal
import statistics
import subprocess
import tempfile
import time

# name, kind of answer, connections
LOADS = [
    ("plain, 1 connection", "small", 1),
    ("plain, 32 connections", "small", 32),
    ("bursts of 100 chunks, 64 streams", "burst", 64),
]
HELD_STREAMS = 2000
HELD = "paced/10/500"


def everything(load, targets, rounds, seconds):
    """results[kind of run][target name] → medians of what the driver said."""
    results = {}
    for name, kind, connections in LOADS:
        results[name] = {target.name: [] for target in targets}
    for turn in range(rounds):
        for name, kind, connections in LOADS:
            for n in range(len(targets)):
                target = targets[(n + turn) % len(targets)]
                said = drive(load, target, kind, "--connections", str(connections), "--seconds", str(seconds))
                results[name][target.name].append(said)
        print(f"round {turn + 1} of {rounds} done", flush=True)
    held = {target.name: [hold(load, target)] for target in targets}
    calls = {target.name: [system_calls(load, target)] for target in targets if target.pids}
    named = {**results, "held": held, "calls": calls}
    return {run: {who: medians(runs) for who, runs in by_target.items()} for run, by_target in named.items()}


def has_errors(results):
    return any(values.get("errors", 0) + values.get("wrong", 0) for by in results.values() for values in by.values())


def medians(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def drive(load, target, kind, *more):
    return call([load, "drive", *target.arguments(kind), *more])


def hold(load, target):
    # Opening takes 0.8 s, the streams last 5.5 s: looked at when all are open.
    return call([load, "hold", *target.arguments(HELD), "--streams", str(HELD_STREAMS), "--look-after", "2"])


def call(command):
    done = subprocess.run(command, text=True, capture_output=True, timeout=120)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} fails:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def system_calls(load, target):
    """System calls per plain request, and writes to sockets per stream of 100 chunks, by strace."""
    plain, connections = 4000, 32
    per_plain = traced(target, lambda: drive(load, target, "small", "--connections", "32", "--requests", str(plain)))
    streams = 400
    per_stream = traced(target, lambda: drive(load, target, "burst", "--connections", "16", "--requests", str(streams)))
    sends = sum(per_stream.get(name, 0) for name in ("write", "writev", "sendto", "sendmsg", "send"))
    requests = plain + connections
    busiest = sorted(per_plain.items(), key=lambda item: -item[1])[:8]
    print(target.name, {name: round(count / requests, 2) for name, count in busiest}, flush=True)
    return {
        "per_plain": sum(per_plain.values()) / requests,
        "sends_per_stream": sends / (streams + 16),
    }


def traced(target, work):
    """How often each system call was made while `work` was done."""
    with tempfile.NamedTemporaryFile("r") as table:
        command = ["strace", "-c", "-f", "-o", table.name]
        for pid in target.pids:
            command += ["-p", str(pid)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        # It says so when it has attached.
        tracer.stderr.readline()
        time.sleep(0.2)
        work()
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=20)
        counts = {}
        for line in open(table.name):
            row = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)\s*$", line)
            if row and row.group(2) != "total":
                counts[row.group(2)] = int(row.group(1))
        return counts
