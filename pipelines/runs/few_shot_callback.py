"""Few-shot accuracy while a model is pre-trained (arXiv 2010.11929, figure 4)."""

import keras
import numpy as np

from pipelines.evaluation.features import features
from pipelines.evaluation.fewshot import choose, few_shot_accuracy
from pipelines.runs.averages import averaged

MOST_IMAGES = 2_000  # of the test


class FewShot(keras.callbacks.Callback):
    """Measures few-shot accuracy after each epoch, and logs it as `few_shot_5`.

    Of averages, where the optimizer keeps them.

    Args:
        train: A `Source` that the examples are drawn from.
        test: A `Source` of the same classes; at most 2,000 images of it, spread evenly, are used.
        batch_size: Integer.
        shots: Integer, examples a class.
        seed: Integer, of the draw.
    """

    def __init__(self, train, test, batch_size=64, shots=5, seed=0):
        super().__init__()
        self.classes, self.shots, self.batch_size = len(train.class_names), shots, batch_size
        self.support = train.take(choose(train.labels, shots, seed, self.classes))
        places = np.linspace(0, test.count - 1, min(test.count, MOST_IMAGES)).astype(int)
        self.test = test.take(places)

    def on_epoch_end(self, epoch, logs=None):
        with averaged(self.model):
            support, test = (
                features(self.model, s, self.batch_size) for s in (self.support, self.test)
            )
        accuracies = few_shot_accuracy(
            support,
            self.support.labels,
            test,
            self.test.labels,
            self.classes,
            shots=(self.shots,),
            seeds=(0,),
        )
        logs[f"few_shot_{self.shots}"] = accuracies[self.shots][0]
