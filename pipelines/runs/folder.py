"""The files of a run."""

import csv
import io
import json

import keras_vit
from pipelines import files


class RunFolder:
    """The folder that a run writes to.

    config.json         the whole recipe as it was run, the data and the versions
    log.csv             one row an epoch
    tensorboard/        the same for TensorBoard
    state.npz           what `--resume` goes on from; `shards/` where processes write parts of it
    best.keras          the model of the best epoch
    last.keras          the model of the last epoch
    final.keras, .npz   the model at the end
    learning_curves.png

    Args:
        path: The folder, on a disk or where `tf.io.gfile` reaches, as `gs://bucket/run`.
        writes: Whether this process makes it and writes to it, as the chief of several does.
    """

    def __init__(self, path, writes=True):
        self.path = files.join(path)
        self.writes = writes
        if writes:
            files.make_folder(self.path)
        self.state, self.shards = self.file("state.npz"), self.file("shards")
        self.config = self.file("config.json")
        self.log = self.file("log.csv")
        self.final = self.file("final.keras")
        self._tensorboard = None
        self._logged = 0

    def file(self, name):
        """Path of a file in the folder, as text."""
        return files.join(self.path, name)

    def write_json(self, path, value):
        """Writes plain values."""
        if not self.writes:
            return
        with files.written(path) as file:
            file.write(json.dumps(value, indent=1, default=str).encode() + b"\n")

    def write_log(self, history):
        """Writes all rows anew, so that the log never has more or less than the state."""
        if not self.writes:
            return
        names = list(dict.fromkeys(name for row in history for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
        with files.written(self.log) as file:
            file.write(text.getvalue().encode())
        self._write_tensorboard(history)

    def save_model(self, model, name):
        """Writes a `.keras` file, complete or not at all."""
        if not self.writes:
            return
        with files.written_by_path(self.file(name)) as path:
            model.save(path)

    def save_weights(self, model, name):
        """Writes weights in Google's format, and beside them a file that says what they are of."""
        if not self.writes:
            return
        if not files.is_remote(self.path):
            keras_vit.save_weights(model, self.file(name))  # which is whole or not there
            return
        with files.written_into(self.path) as here:
            keras_vit.save_weights(model, here / name)

    def sweep(self):
        """Removes what a process left that was killed while it wrote."""
        if self.writes:
            files.remove_unfinished(self.path)

    def _write_tensorboard(self, history):
        from pipelines._tensorflow import tf

        if self._tensorboard is None:
            self._tensorboard = tf.summary.create_file_writer(self.file("tensorboard"))
        with self._tensorboard.as_default():
            for row in history[self._logged :]:
                for name, value in row.items():
                    if name not in ("epoch", "step"):
                        tf.summary.scalar(name, value, step=row["step"])
        self._tensorboard.flush()
        self._logged = len(history)
