"""What became of every weight when a file was loaded."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Adapted:
    """A weight that was changed to fit the model.

    Attributes:
        path: The variable's path.
        old_shape: Its shape in the file.
        new_shape: Its shape in the model.
        how: What was done, in words.
    """

    path: str
    old_shape: tuple
    new_shape: tuple
    how: str

    def __str__(self):
        return f"{self.path} {self.old_shape} -> {self.new_shape}: {self.how}"


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """The account of a load. Printed, it is a short table.

    Attributes:
        source: The file or folder.
        loaded: Paths of variables that hold the file's values as they are.
        adapted: `Adapted` weights.
        fresh: Paths of variables that the file did not set.
        unused: `{key in the file: why}`.
        zero_head: Whether the classifier that was loaded is all zeros, as in the original
            ImageNet-21k files: the model must be fine-tuned before it classifies.
    """

    source: str
    loaded: tuple = ()
    adapted: tuple = ()
    fresh: tuple = ()
    unused: dict = dataclasses.field(default_factory=dict)
    zero_head: bool = False

    def __str__(self):
        lines = [
            f"Weights of {self.source}",
            f"  loaded   {len(self.loaded)}",
            f"  adapted  {len(self.adapted)}",
            *(f"           {weight}" for weight in self.adapted),
            f"  fresh    {_listed(self.fresh)}",
            f"  unused   {_listed(sorted(self.unused))}",
            *(f"           {reason}" for reason in sorted(set(self.unused.values()))),
        ]
        if self.zero_head:
            lines.append("  The head of the file is all zeros: fine-tune before classifying.")
        return "\n".join(lines)


def _listed(names, most=6):
    names = list(names)
    shown = ", ".join(names[:most]) + (", ..." if len(names) > most else "")
    return f"{len(names)}" + (f"  ({shown})" if names else "")
