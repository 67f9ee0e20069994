"""How much of what was evaluated was not padding, as a metric that every engine reduces."""

import keras

NAME = "row_share"


class RowShare(keras.metrics.Metric):
    """The mean weight of all rows.

    Keras divides the loss of an evaluation by the number of rows, padding included; divided by this
    share it is the mean over the true ones.
    """

    def __init__(self):
        super().__init__(name=NAME)
        self.weight = self.add_variable((), keras.initializers.Zeros(), name="weight")
        self.rows = self.add_variable((), keras.initializers.Zeros(), name="rows")

    def update_state(self, y_true, y_pred, sample_weight=None):
        rows = keras.ops.cast(keras.ops.shape(y_pred)[0], self.dtype)
        self.rows.assign_add(rows)
        if sample_weight is None:
            self.weight.assign_add(rows)
        else:
            weights = keras.ops.cast(keras.ops.reshape(sample_weight, (-1,)), self.dtype)
            self.weight.assign_add(keras.ops.sum(weights))

    def result(self):
        return keras.ops.divide_no_nan(self.weight, self.rows)
