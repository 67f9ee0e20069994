"""Few-shot accuracy while a model is pre-trained (arXiv 2010.11929, figure 4)."""

import keras
import numpy as np

from pipelines.evaluation.features import feature_model, features
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
        engine: What `with pipelines.distribute(...) as d` gave, or None. All its processes compute
            the features, and each has the same accuracy.
    """

    def __init__(self, train, test, batch_size=64, shots=5, seed=0, engine=None):
        super().__init__()
        self.engine, self.extractor = engine, None
        self.classes, self.shots, self.batch_size = len(train.class_names), shots, batch_size
        self.support = train.take(choose(train.labels, shots, seed, self.classes))
        places = np.linspace(0, test.count - 1, min(test.count, MOST_IMAGES)).astype(int)
        self.test = test.take(places)

    def on_epoch_end(self, epoch, logs=None):
        self.extractor = self.extractor or feature_model(self.model)
        with averaged(self.model):
            support, test = (
                features(self.model, source, self.batch_size, self.engine, self.extractor)
                for source in (self.support, self.test)
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
