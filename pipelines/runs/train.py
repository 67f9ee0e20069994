"""One run of training: from a recipe to a folder with a model, and on from where it stopped."""

import contextlib
import importlib.metadata
import json
import signal
import threading
import zlib

import keras

import keras_vit
from keras_vit.layers import checks
from pipelines import files
from pipelines.distribution.engine import Engine
from pipelines.recipes.bit_hyperrule import apply_rule
from pipelines.runs import building, sharded_state
from pipelines.runs import state as run_state
from pipelines.runs.averages import EvaluateAverages, averaged, not_finalized
from pipelines.runs.callback import LossOfImages, RunCallback
from pipelines.runs.curves import draw_curves
from pipelines.runs.data import open_data
from pipelines.runs.folder import RunFolder


def train(
    recipe,
    out,
    *,
    data=None,
    name=None,
    resume=False,
    save_every=None,
    distribute=None,
    verbose="auto",
):
    """Trains a recipe with `model.fit`.

    The same recipe gives the same weights, bit for bit on a CPU, however often the run was killed
    and resumed in between.

    Several processes call it alike, within `with pipelines.distribute(...)`. Each reads its own
    rows of every batch; the first writes the files; all decide together when to save and to stop.

    Args:
        recipe: A `Recipe`.
        out: Path of the folder that everything is written to, see `RunFolder`; also `gs://` and
            what else `tf.io.gfile` reaches. All processes must see it.
        data: A `RunData` instead of what the recipe names, or None.
        name: The recipe's name, for the record.
        resume: Whether to go on with the run in `out`. It has to be of the same recipe. Without a
            state there it begins anew; one that has ended is left as it is.
        save_every: Integer, batches between two states; None is ten minutes. A state is also saved
            at the end of every epoch, and before the process ends by SIGTERM.
        distribute: What `with pipelines.distribute(...) as d` gave, or None.
        verbose: As of `fit`.

    Returns:
        The facts of the run: `history`, a list of dicts, one an epoch; `best`; `position`.

    Raises:
        ValueError: if the recipe, data and folder do not fit together, if they are not the same in
            all processes, or if the loss is no number.
        LostPeer: if another process has ended.
        Terminated: after SIGTERM, to any of the processes.

    Example:

    >>> facts = train(pipelines.recipes.resolve("fashion_mnist"), "runs/fashion_mnist")
    """
    if save_every is not None:
        checks.positive_integer(save_every, "save_every")
    engine = distribute or Engine()
    engine.local_batch_size(recipe.batch_size)  # refuses what the replicas do not divide
    with engine.explained():
        folder = RunFolder(out, engine.is_chief)
        data = open_data(recipe) if data is None else data
        if recipe.rule == "bit":
            recipe = apply_rule(recipe, data.train.count)
        record = _record(recipe, name, data)
        if _has_ended(folder, record, resume, engine):
            return _saved_facts(folder)
        run = Run(recipe, data, folder, save_every, engine, verbose)
        # Not before: a recipe that cannot run leaves nothing.
        folder.write_json(folder.config, record)
        run.begin()
        run.train()
        return run.finish()


class Run:
    """A run in this process. See `train`."""

    def __init__(self, recipe, data, folder, save_every, engine, verbose):
        self.recipe, self.data, self.folder = recipe, data, folder
        self.engine, self.verbose = engine, verbose if engine.is_chief else 0
        self.per_epoch = recipe.steps_per_epoch(data.train.count)
        updates = recipe.total_steps(data.train.count)
        self.total = updates * recipe.optimizer.accumulation  # in batches
        self.model = building.build(recipe, data.class_names, engine)
        building.compile_model(self.model, recipe, updates, data.one_hot, data.multi_label)
        self.facts = {"position": 0, "history": [], "best": None, "waited": 0, "stopped": False}
        self.callback = RunCallback(
            folder, self.facts, recipe, self._save_state, self._save_model, save_every, engine
        )
        # Who begins with shards of the state goes on with them, in however many processes.
        self.sharded = sharded_state.has_state(folder.shards) or engine.splits_over_hosts(
            self.model.variables
        )

    def begin(self):
        """Restores the state, if there is one."""
        if sharded_state.has_state(self.folder.shards):
            sharded_state.restore_state(self.folder.shards, self.model)
        elif files.exists(self.folder.state):
            run_state.restore_state(self.folder.state, self.model)
        else:
            return
        self.facts.update(_saved_facts(self.folder))

    def train(self):
        """Fits until the end of the run: first what is left of an epoch, then whole epochs."""
        with _stops_on_sigterm(self.callback), not_finalized(self.model):
            while self.facts["position"] < self.total and not self.facts["stopped"]:
                self._fit(*self._stretch(self.facts["position"]))

    def finish(self):
        """Writes the final files; returns the facts."""
        with averaged(self.model):
            final = building.deployable(self.model, self.recipe.objective, self.engine)
        if self.engine.is_chief:
            self._write_final(final)
        self.engine.wait()  # a process that has ended would be missed
        return self.facts

    def _write_final(self, final):
        facts, folder = self.facts, self.folder
        folder.write_log(facts["history"])
        draw_curves(facts["history"], folder.file("learning_curves.png"))
        try:
            folder.save_weights(final, "final.npz")
        except ValueError as error:  # what Google's format cannot say
            print(f"final.npz was not written: {error}")
        folder.save_model(final, "final.keras")  # last: it says that the run has ended

    def _stretch(self, position):
        """`(epoch, batches, epochs)` of the next `fit`: a rest of an epoch, or whole epochs."""
        epoch, done = divmod(position, self.per_epoch)
        whole = (self.total - position) // self.per_epoch
        if done or not whole:
            return epoch, min(self.per_epoch - done, self.total - position), 1
        return epoch, self.per_epoch, whole

    def _fit(self, epoch, batches, epochs):
        position = self.facts["position"]
        given = getattr(self.model, "encoder", self.model)
        train, validation = self.data.batches(given, position, self.engine)
        counter = _EpochEnds(self.callback, position, batches)
        weights = self.data.class_weights() if self.recipe.class_weights else None
        self.model.fit(
            train,
            validation_data=validation,
            initial_epoch=epoch,
            epochs=epoch + epochs,
            steps_per_epoch=batches,
            class_weight=weights,
            callbacks=[
                counter,
                EvaluateAverages(),
                *self._few_shot(),
                *self._mended(),
                self.callback,
            ],
            shuffle=False,  # it is shuffled already
            verbose=self.verbose,
        )

    def _mended(self):
        if self.recipe.objective != "masked_patch" or self.data.validation is None:
            return []
        return [LossOfImages(self.data.validation.count, self.recipe.batch_size)]

    def _few_shot(self):
        if not self.recipe.few_shot:
            return []
        parts = (self.data.train, self.data.validation)
        if self.data.multi_label or not all(hasattr(part, "labels") for part in parts):
            if self.engine.is_chief:
                print(
                    "Few-shot accuracy is not measured: it needs training and validation images "
                    "in random access, of one class each."
                )
            return []
        from pipelines.runs.few_shot_callback import FewShot

        return [FewShot(*parts, self.recipe.batch_size, engine=self.engine)]

    def _save_state(self):
        if self.sharded:
            sharded_state.save_state(self.folder.shards, self.model, self.facts)
        else:
            run_state.save_state(self.folder.state, self.model, self.facts, self.engine)

    def _save_model(self, names):
        model = building.deployable(self.model, self.recipe.objective, self.engine)
        for name in names:
            self.folder.save_model(model, name)


class _EpochEnds(keras.callbacks.Callback):
    """Tells the run's callback where each epoch ends."""

    def __init__(self, callback, position, batches):
        super().__init__()
        self._callback, self._position, self._batches = callback, position, batches

    def on_epoch_begin(self, epoch, logs=None):
        self._position += self._batches
        self._callback.epoch_end = self._position


def _has_ended(folder, record, resume, engine):
    """Checks the folder against the run; whether there is nothing left to do."""
    _check_alike(folder, record, engine)
    if not files.exists(folder.config):
        engine.wait()  # nobody writes before all have looked
        return False
    if not resume:
        raise ValueError(
            "The folder holds a run already. Go on with it by --resume, or write to another "
            f"by --out. Received: out={folder.path!r}"
        )
    begun = _begun(folder.config)
    _check_same(begun["config"], record["config"], "recipe")
    _check_same(begun["data"], record["data"], "data")
    ended = files.exists(folder.final)
    engine.wait()
    folder.sweep()
    return ended


def _check_alike(folder, record, engine):
    """Refuses processes that train something else, or do not see what the chief writes."""
    kept = [folder.config, folder.state, folder.shards, folder.final]
    there = [int(files.exists(path)) for path in kept]
    data = zlib.crc32(json.dumps([record["config"], record["data"]], sort_keys=True).encode())
    answers = engine.gather([data, *there])
    if any(answer[0] != answers[0][0] for answer in answers):
        raise ValueError(
            "All processes must train the same recipe on the same data. Received: checksums of "
            f"recipe and data by process {[answer[0] for answer in answers]}"
        )
    if any(answer != answers[0] for answer in answers):
        other = next(k for k, answer in enumerate(answers) if answer != answers[0])
        raise ValueError(
            "The folder of a run must be one that all processes see, as on a shared disk or gs://. "
            f"Received: out={folder.path!r}, which has other files for process {other} than for 0"
        )


def _saved_facts(folder):
    """The facts of the state that was saved last."""
    if sharded_state.has_state(folder.shards):
        return sharded_state.read_facts(folder.shards)
    return run_state.read_facts(folder.state)


def _record(recipe, name, data):
    """What `config.json` says of a run: plain values."""
    facts = {
        "source": data.train.name,
        "training_images": data.train.count,
        "validation_images": 0 if data.validation is None else data.validation.count,
        "class_names": data.class_names,
    }
    versions = {package: _version(package) for package in ("keras", "numpy", "tensorflow")}
    versions[keras.backend.backend()] = _version(keras.backend.backend())
    versions["keras_vit"] = keras_vit.__version__
    record = {"recipe": name, "config": recipe.to_dict(), "data": facts}
    record.update(backend=keras.backend.backend(), versions=versions)
    return json.loads(json.dumps(record, default=str))


def _begun(path):
    """What `config.json` said when the run was begun."""
    try:
        record = json.loads(files.read_text(path))
        return {part: record[part] for part in ("config", "data")}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not what a run writes. Put back a copy of it, or begin the run anew in "
            "another folder."
        ) from error


def _check_same(old, new, what):
    """Raises a ValueError that lists the fields in which two records differ."""
    flat = [dict(_flat(config)) for config in (old, new)]
    names = sorted(set(flat[0]) | set(flat[1]))
    changed = [name for name in names if flat[0].get(name) != flat[1].get(name)]
    if changed:
        lines = [
            f"{n} was {_short(flat[0].get(n))} and is {_short(flat[1].get(n))}" for n in changed
        ]
        raise ValueError(
            f"A run is resumed with the {what} it was begun with. Received: " + "; ".join(lines)
        )


def _short(value, most=80):
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _flat(config, prefix=""):
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@contextlib.contextmanager
def _stops_on_sigterm(callback):
    """A context in which SIGTERM lets the batch at hand end and the state be saved."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only there can signals be handled
        return

    def ask(number, frame):
        callback.asked_to_stop = True

    before = signal.signal(signal.SIGTERM, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
