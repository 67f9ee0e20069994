"""The second of two processes is killed in training; what does the first say?

python lost_peer.py OUT
"""

import os
import signal
import sys

import keras
import worker

import pipelines


class Killed(keras.callbacks.Callback):
    """Ends this process as the kernel does when memory is short."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def main(out):
    with pipelines.distribute("data") as d:
        model = worker.build()
        worker.compile(model)
        try:
            model.fit(
                worker.training_data(d),
                steps_per_epoch=50,
                shuffle=False,
                verbose=0,
                callbacks=[] if d.is_chief else [Killed()],
            )
        except RuntimeError as error:
            with open(out, "w") as file:
                file.write(str(error))
            os._exit(0)  # no farewell to the other process, which could wait for it


if __name__ == "__main__":
    main(*sys.argv[1:])
