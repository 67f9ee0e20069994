"""Computing a layer's inside again in the backward pass, instead of keeping it in memory."""

import keras
from keras import ops


def rematerialized(layer, forward, tokens):
    """`forward(tokens)` of which only the input is kept for the backward pass.

    `keras.remat` alone is wrong here for layers that draw random numbers: JAX refuses them, and
    TensorFlow and PyTorch draw others in the backward pass. So all state of the layer goes in
    as values, and that of the random generators comes out as a result.

    Args:
        layer: The layer whose variables `forward` uses; it is built.
        forward: Function of tokens.
        tokens: Float tensor.

    Returns:
        What `forward` returns.
    """
    weights = layer.weights
    generators = [v for v in layer.variables if not any(v is weight for weight in weights)]
    # A copy, since PyTorch changes variables in place, before the backward pass reads this.
    seeds = [(generator, ops.copy(generator)) for generator in generators]

    def pure(tokens, *values):
        state = [*zip(weights, values, strict=True), *seeds]
        with keras.StatelessScope(state_mapping=state) as scope:
            outputs = forward(tokens)
        return outputs, [scope.get_current_value(generator) for generator in generators]

    values = [ops.convert_to_tensor(weight) for weight in weights]
    outputs, states = keras.remat(pure)(tokens, *values)
    for generator, state in zip(generators, states, strict=True):
        generator.assign(state)
    return outputs
