"""Keras models on images that lie on the device: compiled functions, without `predict` and `fit`.

As the custom loops of Keras's own guides: what an accelerator is measured with, where carrying the
images to it would be part of every step.
"""

import keras


def forward(model, job):
    """A function of no arguments that does one forward pass to its end."""
    images = keras.ops.convert_to_tensor(job.images(), model.compute_dtype)
    return _FORWARD[keras.backend.backend()](model, images, job.compiled)


def training(model, optimizer, job):
    """A function of a number of steps that takes them, and returns the last loss."""
    images = keras.ops.convert_to_tensor(job.images(), model.compute_dtype)
    labels = keras.ops.convert_to_tensor(job.labels(), "int32")
    optimizer.build(model.trainable_variables)
    step = _STEP[keras.backend.backend()](model, optimizer, images, labels, job.compiled)

    def train(steps):
        for _ in range(steps):
            loss = step()
        return float(loss)  # waits for it

    return train


def _loss(labels, logits):
    logits = keras.ops.cast(logits, "float32")
    loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return keras.ops.mean(loss)


def _jax_forward(model, images, _):
    import jax

    trainable, others = _values(model.trainable_variables), _values(model.non_trainable_variables)
    call = jax.jit(lambda t, n, x: model.stateless_call(t, n, x, training=False)[0])
    return lambda: jax.block_until_ready(call(trainable, others, images))


def _jax_step(model, optimizer, images, labels, _):
    import jax

    def loss(trainable, others, images, labels):
        logits, others = model.stateless_call(trainable, others, images, training=True)
        return _loss(labels, logits), others

    def step(state, images, labels):
        trainable, others, slots = state
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, others), gradients = gradient(trainable, others, images, labels)
        trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
        return (trainable, others, slots), value

    compiled = jax.jit(step, donate_argnums=0)
    variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    state = tuple(_values(each, copy=True) for each in variables)

    def advance():
        nonlocal state
        state, value = compiled(state, images, labels)
        return value

    return advance


def _values(variables, copy=False):
    """Donated values must be copies: the variables keep theirs."""
    return [variable.value.copy() if copy else variable.value for variable in variables]


def _tensorflow_forward(model, images, _):
    import tensorflow as tf

    call = tf.function(lambda x: model(x, training=False), jit_compile=True)
    return lambda: call(images)[:1].numpy()


def _tensorflow_step(model, optimizer, images, labels, _):
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = _loss(labels, model(images, training=True))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        return loss

    return lambda: step(images, labels)


def _torch_forward(model, images, compiled):
    import torch

    call = torch.compile(model) if compiled else model

    def run():
        with torch.inference_mode():
            return call(images, training=False).cpu()

    return run


def _torch_step(model, optimizer, images, labels, compiled):
    import torch

    call = torch.compile(model) if compiled else model
    variables = model.trainable_variables

    def step():
        model.zero_grad()
        loss = _loss(labels, call(images, training=True))
        loss.backward()
        with torch.no_grad():
            optimizer.apply([v.value.grad for v in variables], variables)
        return loss.detach()

    return step


_FORWARD = {"jax": _jax_forward, "tensorflow": _tensorflow_forward, "torch": _torch_forward}
_STEP = {"jax": _jax_step, "tensorflow": _tensorflow_step, "torch": _torch_step}
