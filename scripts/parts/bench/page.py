"""docs/benchmarks.md."""
import datetime

from . import machine, measure

INTRO = """# Benchmarks

Written by `scripts/bench` on {date}; do not edit. Medians of {rounds} rounds of {seconds:g} s, all targets interleaved, their
order turned each round. One upstream (one thread, answers made beforehand), one driver (one thread, HTTP/1.1 keep-alive,
closed loop), nginx with one worker as a plain proxy with upstream keep-alive and unbuffered answers, the relay with one
worker and everything on: access token verified, grants, admission, journal, metrics. Requests of about 1 KB. CPU is
what the scheduler counted for all threads of the proxy process, divided by answered requests; Postgres, Redis, upstream and driver are not in it. Read the
ratios: the absolutes are this machine's, and other work may have run beside.

"""


def render(results, targets, args):
    names = [target.name for target in targets]
    text = INTRO.format(date=datetime.date.today().isoformat(), rounds=args.rounds, seconds=args.seconds)
    text += table(["", ""], machine.describe()) + "\n"
    for load, _, _ in measure.LOADS:
        text += f"## {load[0].upper()}{load[1:]}\n\n" + load_table(results[load], names, is_stream="chunks" in load) + "\n"
    text += f"## {measure.HELD_STREAMS} slow streams open at once\n\n10 chunks each, 500 ms apart. A delay is from the upstream's write of a chunk to the driver's read of it.\n\n"
    text += held_table(results["held"], names) + "\n"
    text += "## System calls\n\nCounted by strace. Writes to sockets include the request to the upstream.\n\n"
    rows = [(name, f"{calls['per_plain']:.1f}", f"{calls['sends_per_stream']:.1f}") for name, calls in results["calls"].items()]
    text += table(["", "calls per plain request", "writes per burst of 100 chunks"], rows)
    return text


def load_table(by_target, names, is_stream):
    nginx, direct = by_target.get("nginx"), by_target.get("direct")
    head = ["", "CPU µs a request", "× nginx", "requests/s", "of nginx", "p50 ms", "p99 ms", "added p50 ms", "added p99 ms"]
    if is_stream:
        head += ["chunks/s", "of nginx", "first chunk p50 ms"]
    rows = []
    for name in names:
        seen = by_target[name]
        row = [
            name,
            f"{seen['cpu_us']:.1f}" if name != "direct" else "–",
            ratio(seen["cpu_us"], nginx and nginx["cpu_us"]) if name != "direct" else "–",
            f"{seen['per_s']:.0f}",
            ratio(seen["per_s"], nginx and nginx["per_s"]),
            ms(seen["p50_us"]),
            ms(seen["p99_us"]),
            ms(seen["p50_us"] - direct["p50_us"]) if direct else "–",
            ms(seen["p99_us"] - direct["p99_us"]) if direct else "–",
        ]
        if is_stream:
            row += [f"{seen['events_per_s']:.0f}", ratio(seen["events_per_s"], nginx and nginx["events_per_s"]), ms(seen["first_p50_us"])]
        rows.append(row)
    return table(head, rows)


def held_table(by_target, names):
    rows = []
    for name in names:
        seen = by_target[name]
        memory = [f"{seen['kb_per_stream']:.1f}", f"{seen['idle_kb'] / 1024:.1f}"] if name != "direct" else ["–", "–"]
        delays = [ms(seen[f"delay_{which}_us"]) for which in ("p50", "p99", "max")]
        rows.append([name, f"{seen['right']:.0f}", f"{seen['wrong']:.0f}", *memory, *delays])
    return table(["", "right", "wrong", "KB a stream", "idle MB", "delay p50 ms", "p99", "largest"], rows)


def ratio(value, base):
    return f"{value / base:.2f}" if base else "–"


def ms(micros):
    return f"{micros / 1000:.2f}"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)
