"""What `fit`, `evaluate` and `predict` of every model check and mend while an engine acts.

Keras's methods are wrapped within the `with` block of `distribute` and put back at its end, so that
a user's script calls them as ever.
"""

import contextlib
import functools
import inspect

import keras

from pipelines.distribution.row_share import NAME, RowShare

DEFAULT_BATCH_SIZE = 32  # Keras's own


@contextlib.contextmanager
def watched(engine):
    """A context in which the methods of all Keras models go by way of `_Watch`."""
    watch = _Watch(engine)
    names = ("compile", "fit", "evaluate", "predict", "get_metrics_result")
    # On the class that defines it: loading a model compares it with that of Keras's own trainer.
    owners = {
        name: next(owner for owner in keras.Model.__mro__ if name in vars(owner)) for name in names
    }
    originals = {name: vars(owners[name])[name] for name in names}
    for name in names:
        setattr(owners[name], name, _wrapped(originals[name], getattr(watch, name)))
    try:
        yield
    finally:
        for name in names:
            setattr(owners[name], name, originals[name])


def _wrapped(original, replacement):
    """A method that hands itself, bound, and its arguments by name to `replacement`."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        arguments = dict(signature.bind(self, *args, **kwargs).arguments)
        arguments.update(arguments.pop("kwargs", {}))
        arguments.pop("self")
        return replacement(self, functools.partial(original, self), arguments)

    return method


class _Watch:
    def __init__(self, engine):
        self.engine = engine
        self._evaluating = False

    def compile(self, model, original, arguments):
        """Makes the metrics see weights, so that they leave out the rows of padding."""
        plain, weighted = arguments.get("metrics"), arguments.get("weighted_metrics")
        lists = all(
            metrics is None or isinstance(metrics, (list, tuple)) for metrics in (plain, weighted)
        )
        if not lists or arguments.get("loss") is None:
            return original(**arguments)
        arguments["metrics"] = None
        arguments["weighted_metrics"] = [*(plain or ()), *(weighted or ()), RowShare()]
        original(**arguments)
        # A file that is saved tells what the user asked for.
        model._compile_config.config.update(metrics=plain, weighted_metrics=weighted)

    def fit(self, model, original, arguments):
        self.engine.check(model)
        batch_size = arguments.get("batch_size") or DEFAULT_BATCH_SIZE
        validation = arguments.pop("validation_data", None)
        if validation is None and arguments.pop("validation_split", 0.0):
            raise ValueError(
                "`validation_split` cannot be told apart on many devices. Give `validation_data`."
            )
        self._check_batches(arguments["x"], batch_size)
        if self.engine.hosts > 1:
            self._check_hosts(arguments["x"])
        self.engine.prepare(model, arguments["x"])
        arguments["x"] = self.engine.feed(arguments["x"])
        if validation is not None:
            rows = arguments.pop("validation_batch_size", None) or batch_size
            arguments["validation_data"] = self.engine.feed(self._padded(validation, rows))
        with self.engine.explained():
            return original(**arguments)

    def evaluate(self, model, original, arguments):
        if not arguments.get("_use_cached_eval_dataset"):  # fit has padded what it caches
            self.engine.check(model)
            data = arguments.pop("x")
            if not hasattr(data, "element_spec"):
                others = (arguments.pop(name, None) for name in ("y", "sample_weight"))
                data = (data, *(part for part in others if part is not None))
            data = self._padded(data, arguments.pop("batch_size", None) or DEFAULT_BATCH_SIZE)
            self.engine.prepare(model, data)
            arguments["x"] = self.engine.feed(data)
        self._evaluating, before = True, self._evaluating
        try:
            return original(**arguments)
        finally:
            self._evaluating = before

    def predict(self, model, original, arguments):
        self.engine.check_predict()
        if self.engine.hosts > 1:
            return original(**arguments)
        from pipelines.distribution.padding import pad_inputs

        batch_size = arguments.pop("batch_size", None) or DEFAULT_BATCH_SIZE
        dataset, rows = self._dataset(arguments["x"], batch_size)
        if dataset is None:
            return original(**arguments)
        arguments["x"], counts = pad_inputs(dataset, rows, self.engine.replicas)
        outputs = original(**arguments)
        kept = _kept_rows(counts[: arguments.get("steps")], rows, self.engine.replicas)
        return keras.tree.map_structure(lambda output: output[kept], outputs)

    def get_metrics_result(self, model, original, arguments):
        results = dict(self.engine.metrics_result(model, original))
        share = results.pop(NAME, None)
        if share is not None and self._evaluating and "loss" in results:
            results["loss"] = keras.ops.divide_no_nan(results["loss"], share)
        return results

    def _check_batches(self, x, batch_size):
        """Refuses data whose batches would not divide, before the first step."""
        rows = _static_rows(x)
        if rows is not None:
            self._check_static(rows)
        elif _is_array(x):
            if self.engine.hosts > 1:
                raise ValueError(
                    "Several processes need a `tf.data.Dataset` of this one's share of the data, "
                    f"as `pipelines.load(..., distribute=d)` makes it. Received: x={type(x)}"
                )
            self.engine.local_batch_size(batch_size)
            examples = len(keras.tree.flatten(x)[0])
            if examples % batch_size % self.engine.replicas:
                raise ValueError(
                    f"The {self.engine.replicas} replicas must divide the last batch too. "
                    f"Received: {examples} examples, batch_size={batch_size}. Leave out those that "
                    "are over."
                )

    def _check_static(self, rows):
        local = self.engine.replicas // self.engine.hosts
        if rows < 0:
            raise ValueError(
                "Batches to train on must be equally large, which `drop_remainder=True` in "
                "`Dataset.batch` says. Received: a dataset whose batches have an unknown size"
            )
        if rows % local:
            raise ValueError(
                f"The {local} replicas on this host must divide its batches. Received: batches of "
                f"{rows} of {self.engine.hosts} hosts, spec='{self.engine.spec}'"
            )

    def _padded(self, data, batch_size):
        """Data to evaluate, padded if it is arrays or a dataset of ragged batches."""
        from pipelines.distribution.padding import pad_batches

        dataset, rows = self._dataset(data, batch_size)
        if dataset is None:
            return data
        if self.engine.hosts > 1:
            self._check_hosts(dataset)
            return dataset
        return pad_batches(dataset, rows, self.engine.replicas)

    def _check_hosts(self, dataset):
        """All hosts must run the same steps, else the first to end leaves the others waiting."""
        rows = _static_rows(dataset)
        if rows is None or rows < 0:
            raise ValueError(
                "Several processes need a `tf.data.Dataset` of batches of one known size: train "
                "with `drop_remainder=True`, pad what is evaluated with "
                "`pipelines.distribution.padding.pad_batches(dataset, rows)`. "
                f"Received: {dataset!r}"
            )
        self._check_static(rows)
        shares = self.engine.gather([int(dataset.cardinality()), rows])
        if any(share != shares[0] for share in shares):
            raise ValueError(
                "All hosts must have equally many batches of one size, or the first to end would "
                f"wait for ever. Received: [batches, rows] by host {shares}"
            )

    def _dataset(self, data, batch_size):
        """(dataset, rows after padding or None) of arrays or a dataset; (None, None) of others."""
        from pipelines._tensorflow import tf

        multiple = self.engine.replicas
        rows = _static_rows(data)
        if rows is not None:
            return data, None if rows < 0 else -(-rows // multiple) * multiple
        if not _is_array(data):
            return None, None
        if self.engine.hosts > 1:
            raise ValueError(
                "Several processes need a `tf.data.Dataset` of this one's share of the data. "
                f"Received: {type(data)}"
            )
        dataset = tf.data.Dataset.from_tensor_slices(data).batch(batch_size)
        return dataset, -(-batch_size // multiple) * multiple


def _static_rows(data):
    """The rows of a dataset's batches; -1 where they are unknown; None of what is no dataset."""
    if not hasattr(data, "element_spec"):
        return None
    shape = keras.tree.flatten(data.element_spec)[0].shape
    return -1 if shape.rank is None or shape[0] is None else shape[0]


def _is_array(data):
    return all(hasattr(part, "shape") for part in keras.tree.flatten(data))


def _kept_rows(counts, rows, multiple):
    """Which rows of padded predictions are true, as a list of indices."""
    kept, start = [], 0
    for count in counts:
        kept.extend(range(start, start + count))
        start += -(-count // multiple) * multiple if rows is None else rows
    return kept
