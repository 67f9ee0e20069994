"""What the benchmarks share: contenders that take turns, each in a process of its own.

A worker is a process that does a piece of work for every line it is sent and answers with a line.
It keeps what it has built between the lines, and sits still while others have their turn: what
disturbs the machine for a while disturbs all of them.
"""

import concurrent.futures
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


class Worker:
    """A contender in a process of its own; it runs `serve`.

    Args:
        command: List of strings, the command line.
        environment: Dictionary of variables to set, or None.
    """

    def __init__(self, command, environment=None):
        self._complaints = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self.failure = None

    def ask(self, **request):
        """Has one piece of work done.

        Returns:
            Dictionary of the answer, and where it has not told them itself, `seconds` and `cpu` in
            seconds, `resident` and `peak` in MiB, of the worker and its children. None once the
            worker has failed.
        """
        if self.failure is not None:
            return None
        before = cpu_seconds(self._process.pid)
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            self.failure = f"ended with code {self._process.wait()}: {self._last_complaint()}"
            return None
        if "failure" in answer:
            self.failure = answer["failure"]
            return None
        resident, peak = memory(self._process.pid)
        cpu = cpu_seconds(self._process.pid) - before
        return {"cpu": cpu, "resident": resident, "peak": peak} | answer

    def _last_complaint(self):
        self._complaints.seek(0)
        lines = [line.strip() for line in self._complaints if line.strip()]
        return lines[-1][:200] if lines else "without a word"

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._complaints.close()


def serve(work):
    """Answers requests until there are no more; to be called by the worker's own process.

    Args:
        work: Function of a request's values to a dictionary. `seconds` is added to it.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get among the answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            start = time.perf_counter()
            answer = work(**request)
            answer.setdefault("seconds", time.perf_counter() - start)
        except Exception as error:  # told to the other process, which goes on without this one
            answer = {"failure": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def interleaved(workers, rounds, requests, together=False):
    """Lets workers take turns: one warm-up, then every worker once in each round.

    Args:
        workers: Dictionary of name to `Worker`.
        rounds: Integer.
        requests: Dictionary of name to the dictionary of its request.
        together: Whether all warm up at the same time, for those that compile for long.

    Returns:
        Dictionary of name to the list of its answers; the failed ones are left out.
    """
    with concurrent.futures.ThreadPoolExecutor(len(workers) if together else 1) as threads:
        list(threads.map(lambda name: workers[name].ask(**requests[name]), workers))
    answers = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            answer = worker.ask(**requests[name])
            if answer is not None:
                answers[name].append(answer)
    return {name: found for name, found in answers.items() if found}


def median(values):
    return statistics.median(values)


def spread(values):
    """Half of the range over the median: how much the rounds differ."""
    return (max(values) - min(values)) / 2 / statistics.median(values)


def ratio(slow, fast):
    """How many times the second took less, in each round: median and spread, as text."""
    ratios = [one / other for one, other in zip(slow, fast, strict=False)]
    return f"{median(ratios):.2f} ± {(max(ratios) - min(ratios)) / 2:.2f}"


def tree(pid):
    """A process and all that come from it."""
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:  # it has ended
                pass
    return found


def cpu_seconds(pid):
    """Processor time of a process, its children and those that it has seen end."""
    total = 0
    for member in tree(pid):
        try:
            fields = pathlib.Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(value) for value in fields[11:15]) / TICKS
    return total


def memory(pid):
    """Resident memory of a process and its children, now and at its most, in MiB.

    What they share is counted in each of them.
    """
    now = most = 0
    for member in tree(pid):
        try:
            lines = pathlib.Path(f"/proc/{member}/status").read_text().splitlines()
        except OSError:
            continue
        values = dict(line.split(":", 1) for line in lines if ":" in line)
        now += int(values.get("VmRSS", "0").split()[0]) / 1024
        most += int(values.get("VmHWM", "0").split()[0]) / 1024
    return now, most


def anonymous(pid):
    """The part of a process's resident memory that is no file's, in MiB."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


def machine():
    """What the numbers were measured on."""
    names = [
        line.split(":", 1)[1].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": platform.system(),
    }


PACKAGES = (
    "keras", "tensorflow", "jax", "torch", "keras-hub", "flax", "timm", "transformers",
)  # fmt: skip


def version(package):
    """The version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def surroundings():
    """The machine, the versions and the day, of a benchmark's results."""
    versions = {package: version(package) for package in PACKAGES if version(package)}
    return {
        "machine": machine(),
        "versions": versions,
        "date": datetime.date.today().isoformat(),
        "command": " ".join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def products(groups):
    """What each library's matrix product reached in all groups, as a sentence."""
    ceilings = {}
    for found in groups:
        for library, rates in found["ceilings"].items():
            ceilings.setdefault(library, []).extend(rates)
    each = ", ".join(f"{name} {median(rates) / 1e9:,.0f}" for name, rates in ceilings.items())
    return f"GFLOP/s of a matrix product: {each}."


def sentence(results):
    """What `surroundings` found, as a sentence below a table."""
    machine, versions = results["machine"], results["versions"]
    packages = ", ".join(f"{package} {number}" for package, number in versions.items())
    return (
        f"{results['date']}, {machine['cores']} cores of {machine['processor']}, Python "
        f"{machine['python']}, {packages}. `python benchmarks/{results['command']}`"
    )


def table(header, rows):
    """A Markdown table of strings."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(folder, name, results, text):
    """Writes `NAME.json` and `NAME.md` to a folder."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / f"{name}.md").write_text(text.rstrip("\n") + "\n")
