"""The multiply-adds of the models that are measured, counted from their shapes alone."""

import functools


@functools.cache
def forward(job):
    """Multiply-adds of one image of a `peers.Job`."""
    import keras
    from peers import ours

    with keras.StatelessScope(initialize_variables=False):
        return ours.keras_vit.count_macs(ours.build(job)).total


def training(job):
    """Of a step: backward takes twice the products, one for the input and one for the weights."""
    return 3 * forward(job)
