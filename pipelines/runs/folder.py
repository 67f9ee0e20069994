"""The files of a run."""

import csv
import io
import json
import pathlib

from keras_vit.weights.atomic import atomic_path, atomic_write


class RunFolder:
    """The folder that a run writes to.

    config.json         the whole recipe as it was run, the data and the versions
    log.csv             one row an epoch
    tensorboard/        the same for TensorBoard
    state.npz           what `--resume` goes on from
    best.keras          the model of the best epoch
    last.keras          the model of the last epoch
    final.keras, .npz   the model at the end
    learning_curves.png

    Args:
        path: The folder; it is made.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.state = self.path / "state.npz"
        self.config = self.path / "config.json"
        self.log = self.path / "log.csv"
        self.final = self.path / "final.keras"
        self._tensorboard = None
        self._logged = 0

    def write_json(self, path, value):
        """Writes plain values."""
        with atomic_write(path) as file:
            file.write(json.dumps(value, indent=1, default=str).encode() + b"\n")

    def write_log(self, history):
        """Writes all rows anew, so that the log never has more or less than the state."""
        names = list(dict.fromkeys(name for row in history for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
        with atomic_write(self.log) as file:
            file.write(text.getvalue().encode())
        self._write_tensorboard(history)

    def save_model(self, model, name):
        """Writes a `.keras` file, complete or not at all."""
        with atomic_path(self.path / name) as beside:
            model.save(beside)

    def sweep(self):
        """Removes what a process left that was killed while it wrote."""
        for path in (*self.path.glob(".*.tmp"), *self.path.glob(".*.keras")):
            path.unlink(missing_ok=True)

    def _write_tensorboard(self, history):
        from pipelines._tensorflow import tf

        if self._tensorboard is None:
            self._tensorboard = tf.summary.create_file_writer(str(self.path / "tensorboard"))
        with self._tensorboard.as_default():
            for row in history[self._logged :]:
                for name, value in row.items():
                    if name not in ("epoch", "step"):
                        tf.summary.scalar(name, value, step=row["step"])
        self._tensorboard.flush()
        self._logged = len(history)
