"""Learning curves as a picture."""

from pipelines import files


def draw_curves(history, path):
    """Draws loss and accuracy over the steps of a run.

    Args:
        history: List of dicts, one an epoch, with `step` and what was measured.
        path: Path of the picture, `.png`, on a disk or not.

    Returns:
        Whether it was drawn; without matplotlib it is not.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    groups = {
        "loss": ("loss", "val_loss"),
        "accuracy": ("accuracy", "val_accuracy", "few_shot_5"),
        "learning rate": ("learning_rate",),
    }
    figure = Figure(figsize=(12, 3.5), layout="constrained")
    for axis, (title, names) in zip(figure.subplots(1, 3), groups.items(), strict=True):
        for name in names:
            rows = [row for row in history if name in row]
            if rows:
                steps = [row["step"] for row in rows]
                axis.plot(steps, [row[name] for row in rows], marker=".", label=name)
        axis.set(xlabel="step", title=title)
        if axis.lines:
            axis.legend()
    with files.written_by_path(path) as local:
        figure.savefig(local, dpi=100)
    return True
