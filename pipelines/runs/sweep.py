"""The paper's way to a hyper-parameter: chosen on held-out images, then trained on all of them."""

import csv
import dataclasses
import gc
import io

import keras
import numpy as np

import pipelines
from keras_vit.layers import checks
from pipelines import files
from pipelines.distribution import launcher
from pipelines.recipes.config import replace
from pipelines.recipes.overrides import override
from pipelines.runs.data import has_own_validation
from pipelines.runs.train import train


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What a sweep found.

    Attributes:
        field: Name of the field.
        tried: `{value: accuracy on the held-out images}`, values as text.
        chosen: The value of the highest accuracy; of equal ones the first.
        accuracies: Tuple of floats, of the final runs, one a seed.
        on_all: Whether these were trained on all training images and measured on others. Where the
            source has no validation or test part, they could only be measured on the held-out
            images that chose the value, which flatters them.
    """

    field: str
    tried: dict
    chosen: str
    accuracies: tuple
    on_all: bool = True

    def table(self):
        """Lines of text: each value, then mean and standard deviation of the final runs."""
        lines = [f"{self.field:<28} held-out accuracy"]
        for value, accuracy in self.tried.items():
            mark = "  <- chosen" if value == self.chosen else ""
            lines.append(f"{value:<28} {accuracy:.2%}{mark}")
        mean, deviation = np.mean(self.accuracies), np.std(self.accuracies)
        runs = len(self.accuracies)
        seeds = "1 seed" if runs == 1 else f"{runs} seeds"
        final = "trained on all" if self.on_all else "on the held-out images that chose it"
        lines.append(f"{final}, {seeds}: {mean:.2%} +- {deviation:.2%}")
        return "\n".join(lines)


def sweep(recipe, out, text, seeds=3, *, distribute=None, **options):
    """Tries values of a field, and trains the best on all training images.

    The values are compared on `data.validation` of the training images, with the recipe's own seed.
    The best is then trained with seeds 0, 1 and so on, on all training images, and measured on the
    source's own validation or test images; where it has none, as the values were, which the result
    says. Runs that are complete are not run again, and one that
    was stopped goes on.

    Args:
        recipe: A `Recipe`.
        out: Folder, as of `train`; each run has its own in it, and there are `sweep.csv` and
            `sweep.png`.
        text: `"field=value,value"`, or `"field"` for the values of the recipe's grid.
        seeds: Integer, final runs.
        distribute: As of `pipelines.distribute`, for each run.
        **options: `name`, `save_every` and `verbose` of `train`.

    Returns:
        A `Sweep`.

    Raises:
        ValueError: if there is no such field, or no values for it, or nothing is held out, or
            the objective has no accuracy, or there are several processes.

    Example:

    >>> print(sweep(recipe, "runs/pets", "optimizer.learning_rate=.003,.01").table())
    """
    checks.positive_integer(seeds, "seeds")
    if not recipe.data.validation:
        raise ValueError(
            "A sweep compares values on held-out images, a share of those to train on. Received: "
            f"data.validation={recipe.data.validation}"
        )
    if recipe.objective == "masked_patch":
        raise ValueError(
            "A sweep compares accuracies, which masked patches have none of. Received: "
            f"objective={recipe.objective!r}"
        )
    processes = launcher.num_processes(keras.backend.backend())
    if processes > 1:
        raise ValueError(
            "A sweep is of one process, with all its devices: the backends do not join the others "
            f"once more for every run. Received: {processes} processes. Train the values one by "
            "one, or give every host a sweep of its own."
        )
    field, values = _values(recipe, text)
    tried = {}
    for value in values:
        held_out = replace(override(recipe, {field: value}), data={"dev": True})
        tried[value] = _accuracy(held_out, files.join(out, f"try-{value}"), distribute, options)
    chosen = max(tried, key=tried.get)
    accuracies = []
    for seed in range(seeds):
        final = replace(override(recipe, {field: chosen}), seed=seed)
        accuracies.append(_accuracy(final, files.join(out, f"final-{seed}"), distribute, options))
    result = Sweep(field, tried, chosen, tuple(accuracies), has_own_validation(recipe.data))
    _write(result, out)
    return result


def _values(recipe, text):
    field, equals, values = text.partition("=")
    found = [value for value in values.split(",") if value]
    if not equals:
        found = [str(value) for value in recipe.grid.get(field, ())]
    if not found:
        known = ", ".join(recipe.grid) or "none"
        raise ValueError(
            "A sweep needs values, field=value,value; the recipe has values of its own for: "
            f"{known}. Received: {text!r}"
        )
    for value in found:
        override(recipe, {field: value})  # a wrong one is said before anything is trained
    return field, found


def _accuracy(recipe, folder, distribute, options):
    with pipelines.distribute(distribute) as d:
        facts = train(recipe, folder, resume=files.exists(folder), distribute=d, **options)
    _forget()
    return facts["history"][-1]["val_accuracy"]


def _forget():
    """Frees what Keras keeps of a model that is done: memory would grow from run to run."""
    keras.backend.clear_session()
    gc.collect()


def _write(result, out):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", result.field, "accuracy"])
    writer.writerows(["held-out", value, accuracy] for value, accuracy in result.tried.items())
    writer.writerows(["final", result.chosen, accuracy] for accuracy in result.accuracies)
    files.make_folder(out)
    with files.written(files.join(out, "sweep.csv")) as file:
        file.write(text.getvalue().encode())
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axis = figure.subplots()
    axis.plot(list(result.tried), list(result.tried.values()), marker="o", label="held-out")
    finals = [result.chosen] * len(result.accuracies)
    axis.plot(finals, result.accuracies, "x", label="final")
    axis.set(xlabel=result.field, ylabel="accuracy")
    axis.legend()
    with files.written_by_path(files.join(out, "sweep.png")) as path:
        figure.savefig(path, dpi=100)
