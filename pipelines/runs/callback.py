"""Keeps a run safe while `fit` trains it: state, log, best model, a loss that is no number."""

import math
import signal
import time

import keras

from pipelines.distribution.engine import Engine
from pipelines.runs.averages import averaged
from pipelines.runs.building import without_padding

SECONDS = 600  # between two states, besides that at the end of every epoch
GUARD_STEPS = 16  # between two looks at the loss, each of which waits for the device
# Between two moments at which several processes ask each other whether to stop or save. It is
# turned into batches, at most as many as those above, since only batches are counted alike.
ASK_SECONDS = 5


class Terminated(SystemExit):
    """The run was asked to stop and has saved its state."""


class LossOfImages(keras.callbacks.Callback):
    """Makes `val_loss` that of the images where no metric has it, as for masked patches.

    Keras's is the mean over all rows, of which those that fill up the last batch have the loss 0.

    Args:
        images: Integer, how many are validated on.
        batch_size: Integer.
    """

    def __init__(self, images, batch_size):
        super().__init__()
        self.rows_per_image = -(-images // batch_size) * batch_size / images

    def on_epoch_end(self, epoch, logs=None):
        if "val_loss" in logs:
            logs["val_loss"] *= self.rows_per_image


class RunCallback(keras.callbacks.Callback):
    """Saves what `--resume` needs, and stops what has gone wrong.

    A position counts batches from the start of the run. Everything that is known about the run is
    in `facts`, a dict that goes into the state: `position`, `history`, `best`, `waited`, `stopped`.

    Several processes each have one. They decide together, after the same batches: one that stopped
    or saved by itself would leave the others waiting.

    Args:
        folder: `RunFolder`.
        facts: The facts to go on from.
        recipe: A `Recipe`.
        save_state: Function without arguments that writes the state of this moment.
        save_model: Function of names of files that writes the model under each.
        save_every: Integer, batches between two states; None is by the clock.
        engine: What `with pipelines.distribute(...) as d` gave, or None.
    """

    def __init__(self, folder, facts, recipe, save_state, save_model, save_every=None, engine=None):
        super().__init__()
        self.folder, self.facts, self.recipe = folder, facts, recipe
        self.save_state, self.save_model, self.save_every = save_state, save_model, save_every
        self.engine = engine or Engine()
        self.asked_to_stop = False
        self.epoch_end = None  # the position at which the epoch at hand ends
        self._epoch_began = self._saved = time.monotonic()
        self._asked, self._ask_at = (self._saved, self.position), 0

    @property
    def position(self):
        return self.facts["position"]

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch_began = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        self.facts["position"] += 1
        if self.position % GUARD_STEPS == 0:
            self._check_finite(logs)
        if self.position == self.epoch_end:
            return  # what is to be saved is saved after the validation
        stop, due = self._ask_all() if self.position >= self._ask_at else (False, False)
        if self.save_every is not None:
            due = self.position % self.save_every == 0
        if stop or due:
            self._check_finite(logs)
            self.save()
        if stop:
            raise Terminated(128 + signal.SIGTERM)

    def on_epoch_end(self, epoch, logs=None):
        self._check_finite(logs)
        row = {
            "epoch": epoch + 1,
            "step": self.position // self.recipe.optimizer.accumulation,
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            "seconds": round(time.monotonic() - self._epoch_began, 1),
            **{name: float(value) for name, value in without_padding(logs).items()},
        }
        self.facts["history"].append(row)
        self._keep_best(row)
        self.save()
        self.folder.write_log(self.facts["history"])
        if self._ask_all()[0]:
            raise Terminated(128 + signal.SIGTERM)

    def save(self):
        """Writes the state of this moment."""
        if keras.backend.backend() == "jax":
            self.model.jax_state_sync()  # during `fit` the variables wait for this
        self.save_state()
        self._saved = time.monotonic()

    def _ask_all(self):
        """Whether any process was asked to stop, and whether the chief's clock says to save."""
        now = time.monotonic()
        seconds, batches = now - self._asked[0], self.position - self._asked[1]
        pace = GUARD_STEPS if seconds == 0 else int(batches * ASK_SECONDS / seconds)
        mine = [int(self.asked_to_stop), int(now - self._saved > SECONDS), pace]
        answers = self.engine.gather(mine)
        _, due, pace = answers[0]
        if self.engine.hosts > 1:  # one process asks only itself, after every batch
            self._ask_at = self.position + min(max(pace, 1), GUARD_STEPS)
        self._asked = now, self.position
        return any(answer[0] for answer in answers), bool(due)

    def _check_finite(self, logs):
        loss = float((logs or {}).get("loss", 0.0))
        losses = [row[0] for row in self.engine.gather([loss])]
        if not all(map(math.isfinite, losses)):
            loss = next(x for x in losses if not math.isfinite(x))
            raise ValueError(
                f"The loss is no number any more, at batch {self.position} of the run. Received: "
                f"loss={loss}. Take a lower optimizer.learning_rate, a longer optimizer.warmup, or "
                f"a lower optimizer.clip_norm. {self.folder.path} has the last state before."
            )

    def _keep_best(self, row):
        """The best epoch is that of the highest validation accuracy, or else the lowest loss."""
        name = next(name for name in ("val_accuracy", "val_loss", "loss") if name in row)
        score = row[name] if name == "val_accuracy" else -row[name]
        score = self.engine.gather([score])[0][0]  # the chief's, to the last bit
        best = self.facts["best"]
        better = best is None or score > best["score"]
        if better:
            self.facts["best"] = {"score": score, "epoch": row["epoch"], name: row[name]}
        self.facts["waited"] = 0 if better else self.facts["waited"] + 1
        with averaged(self.model):
            self.save_model(["last.keras", "best.keras"] if better else ["last.keras"])
        patience = self.recipe.patience
        if patience is not None and self.facts["waited"] >= patience:
            self.facts["stopped"] = True
            self.model.stop_training = True
