"""Tries what cannot work in two processes, and writes what was said: {attempt: message}.

python refusals_together.py OUT
"""

import json
import sys

import keras
import worker
from refusals import message

import pipelines
from pipelines._tensorflow import tf


def main(out):
    said = {}
    with pipelines.distribute("data") as d:
        model = worker.build()
        worker.compile(model)
        said["arrays"] = message(lambda: model.fit(*worker.images(16, 1), verbose=0))
        said["a ragged batch"] = message(lambda: model.evaluate(data(3, ragged=True), verbose=0))
        uneven = data(3 if d.is_chief else 4)
        said["uneven training"] = message(lambda: model.fit(uneven, shuffle=False, verbose=0))
        said["uneven evaluation"] = message(lambda: model.evaluate(uneven, verbose=0))
        if keras.backend.backend() == "jax":
            said["predict"] = message(lambda: model.predict(worker.images(4, 1)[0], verbose=0))
            other = worker.build()
            other.weights[0].assign(other.weights[0] + d.host)
            worker.compile(other)
            said["other weights"] = message(lambda: other.fit(data(3), shuffle=False, verbose=0))
        model.fit(data(3), shuffle=False, verbose=0)
        said["trains after all that"] = None
    with open(out, "w") as file:
        json.dump(said, file)


def data(batches, ragged=False):
    """So many batches of four."""
    examples = tf.data.Dataset.from_tensor_slices(worker.images(4 * batches, 1))
    return examples.batch(4, drop_remainder=not ragged)


if __name__ == "__main__":
    main(*sys.argv[1:])
