"""Workers without processes, for all tests of the benchmarks."""

import pytest
from quick_compilation import quick_compilation  # noqa: F401


class FakeWorker:
    """Answers what it was given, one after another and then over again; remembers the requests."""

    def __init__(self, answers):
        self.answers, self.requests, self.closed = answers, [], False
        self.failure = answers if isinstance(answers, str) else None

    def ask(self, **request):
        self.requests.append(request)
        if self.failure:
            return None
        return self.answers[(len(self.requests) - 1) % len(self.answers)]

    def close(self):
        self.closed = True


@pytest.fixture
def fake_workers(monkeypatch):
    """Puts fake workers in the place of processes.

    A function of a dictionary: name of a peer, or `(name, backend)`, to its answers, or to the
    sentence of its failure. It returns the list to which the workers are added.
    """
    import compare

    def install(answers):
        made = []

        def worker(name, job, backend):
            made.append(FakeWorker(answers.get((name, backend), answers.get(name))))
            made[-1].name, made[-1].job, made[-1].backend = name, job, backend
            return made[-1]

        monkeypatch.setattr(compare, "worker", worker)
        return made

    return install
