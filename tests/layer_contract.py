"""What every layer must do, on the backend in use: one helper, `check_layer`.

Numbers come from the NumPy reference. Inputs and weights are random and well spread, and a test
gives inputs in which no two sizes are equal, so that an exchanged axis shows.
"""

import dataclasses
import inspect
import json
import zlib
from collections.abc import Callable

import fresh_process
import keras
import numpy as np
from keras import ops

# Errors allowed, relative to the largest expected number: in 16 bits, eight steps of the dtype.
TOLERANCE = {
    "float32": 1e-5,
    "bfloat16": 8 * 2.0**-7,
    "float16": 8 * 2.0**-10,
    "float64": 1e-6,  # Keras itself keeps a few constants and sums in float32
}
# Keras's own arguments, which every layer passes on.
BASE_ARGUMENTS = {"name", "trainable", "dtype"}
# What a variable must move in a step of SGD; rounding errors move it by less.
MOVED = 1e-6


@dataclasses.dataclass(frozen=True)
class Case:
    """One layer with its arguments, and what is expected of it; see `check_layer`."""

    layer_class: type
    arguments: dict
    inputs: tuple
    expected: Callable
    variables: dict
    seed_generators: int
    at_default: tuple
    without_gradient: tuple

    def new_layer(self, **kwargs):
        return self.layer_class(**{**self.arguments, "name": "tested", **kwargs})

    def weighted_layer(self, **kwargs):
        """A built layer whose variables have the case's weights."""
        layer = self.new_layer(**kwargs)
        layer.build(*(batch_free(x) for x in self.inputs))
        assign(layer, self.weights())
        return layer

    def weights(self):
        return random_weights(self.variables)

    def reference(self):
        """What the NumPy reference computes, in float64."""
        weights = {path: np.float64(w) for path, w in self.weights().items()}
        return self.expected(weights, *(np.float64(x) for x in self.inputs))


def check_layer(
    layer_class,
    arguments,
    inputs,
    expected,
    *,
    variables=None,
    seed_generators=0,
    at_default=(),
    without_gradient=(),
):
    """Holds a layer against all that layers have in common.

    Args:
        layer_class: A layer of keras_vit.
        arguments: Dict of all the constructor's arguments but Keras's own.
        inputs: A float32 array with the batch first, or a tuple of several.
        expected: Function of `({path: weight}, *inputs)`, float64 arrays, to what the layer must
            return in inference.
        variables: `{path in the layer: shape}` of all variables, which are all trainable.
        seed_generators: How many random parts the layer has. More than none: it drops in training.
        at_default: Names of the arguments that stand at their default in this case. The others
            must not, so that one lost on the way shows.
        without_gradient: Paths of variables on which the loss cannot depend.
    """
    case = Case(
        layer_class,
        arguments,
        inputs if isinstance(inputs, tuple) else (inputs,),
        expected,
        variables or {},
        seed_generators,
        at_default,
        without_gradient,
    )
    check_config(case)
    check_variables(case)
    check_shapes(case)
    check_numbers(case)
    check_policies(case)
    if seed_generators:
        check_randomness(case)
    check_training_step(case)
    check_saved_file(case)


# --- Configuration and variables ---------------------------------------------------------------


def check_config(case):
    """Arguments and config keys are the same set, and a config makes an equal layer."""
    defaults = constructor_arguments(case.layer_class)
    assert set(case.arguments) == set(defaults)
    left = {name for name in defaults if case.arguments[name] == defaults[name]}
    assert left == set(case.at_default), "every other argument must differ from its default"

    config = case.new_layer().get_config()
    assert set(config) == set(defaults) | BASE_ARGUMENTS
    for name, value in case.arguments.items():
        assert as_json(config[name]) == as_json(value), name
    for policy in ("mixed_bfloat16", keras.DTypePolicy("mixed_bfloat16")):
        layer = case.new_layer(dtype=policy, trainable=False, name="other")
        check_config_survives(layer)
    assert keras.saving.get_registered_name(case.layer_class).startswith("keras_vit>")


def check_config_survives(layer):
    """Through JSON and back, with Keras's `serialize` too, and so do the policy and the name."""
    config = as_json(layer.get_config())
    serialized = as_json(keras.saving.serialize_keras_object(layer))
    for copy in (
        type(layer).from_config(config),
        keras.saving.deserialize_keras_object(serialized),
    ):
        assert type(copy) is type(layer)
        assert as_json(copy.get_config()) == config
        assert copy.name == layer.name
        assert copy.trainable == layer.trainable
        assert copy.dtype_policy == layer.dtype_policy


def constructor_arguments(layer_class):
    """`{name: default}` of a layer class and of its bases in keras_vit."""
    arguments = {}
    for cls in layer_class.__mro__:
        if cls.__module__.startswith("keras_vit") and "__init__" in cls.__dict__:
            parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
            assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
            arguments.update({p.name: p.default for p in parameters[:-1]})
    return arguments


def check_variables(case):
    """`build` alone makes every variable, under its public path; a first call makes the same."""
    built = case.new_layer()
    built.build(*(batch_free(x) for x in case.inputs))
    assert built.built
    assert variable_shapes(built) == case.variables
    assert not built.non_trainable_weights
    assert len(built.non_trainable_variables) == case.seed_generators

    called = case.new_layer()
    called(*case.inputs)
    built(*case.inputs)
    for layer in (built, called):
        assert variable_shapes(layer) == case.variables
        assert len(layer.variables) == len(case.variables) + case.seed_generators
    built.trainable = False
    assert not built.trainable_variables


# --- Shapes and numbers ------------------------------------------------------------------------


def check_shapes(case):
    """Symbolic, announced and real shapes agree, with any batch."""
    layer = case.new_layer()
    symbolic = layer(*(keras.Input(x.shape[1:]) for x in case.inputs))
    assert symbolic.shape[0] is None
    assert symbolic.dtype == "float32"
    assert symbolic.shape == layer.compute_output_shape(*(batch_free(x) for x in case.inputs))
    for batch in (len(case.inputs[0]), 1):
        inputs = [x[:batch] for x in case.inputs]
        shape = (batch, *symbolic.shape[1:])
        assert layer.compute_output_shape(*(x.shape for x in inputs)) == shape
        assert shape_of_call(layer, inputs) == shape


def check_numbers(case):
    """Eager and compiled results are those of the reference, each sample's its own."""
    reference = case.reference()
    layer = case.weighted_layer()
    eager = call(layer, case.inputs)
    assert_close(eager, reference, TOLERANCE["float32"])
    backwards = call(layer, [x[::-1] for x in case.inputs])
    assert_close(backwards[::-1], reference, TOLERANCE["float32"])
    compiled = predict(one_layer_model(layer, case.inputs), case.inputs)
    assert_close(compiled, eager, TOLERANCE["float32"])


def check_policies(case):
    """Under each policy: its dtypes, and numbers as near as the dtype allows."""
    for policy in ("mixed_bfloat16", "mixed_float16", "bfloat16"):
        check_policy(case, policy)
    if keras.backend.backend() != "jax":  # which has no float64 unless it is switched on
        check_policy(case, "float64")


def check_policy(case, policy):
    layer, wanted = case.weighted_layer(dtype=policy), keras.DTypePolicy(policy)
    assert layer.compute_dtype == wanted.compute_dtype
    assert {v.dtype for v in layer.weights} <= {wanted.variable_dtype}
    symbolic = layer(*(keras.Input(x.shape[1:]) for x in case.inputs))
    assert symbolic.dtype == wanted.compute_dtype
    reference, tolerance = case.reference(), TOLERANCE[wanted.compute_dtype]
    if keras.backend.backend() != "jax":  # where an eager call would compile each operation
        outputs = layer(*case.inputs)
        assert keras.backend.standardize_dtype(outputs.dtype) == wanted.compute_dtype
        assert_close(to_numpy(outputs), reference, tolerance)

    # XLA has other kernels than eager calls use, and none for some 16-bit products.
    model = one_layer_model(layer, case.inputs)
    outputs = predict(model, case.inputs)
    if keras.backend.backend() != "torch":  # where NumPy's bfloat16 is out of reach
        assert str(outputs.dtype) == wanted.compute_dtype
    assert_close(outputs, reference, tolerance)
    for deviation in (1e-4, 0.0):  # as flat parts of an image give; nothing may overflow
        flat = [0.5 + deviation * x for x in case.inputs]
        assert np.isfinite(predict(model, flat).astype("float32")).all()


# --- Training ----------------------------------------------------------------------------------


def check_randomness(case):
    """What is dropped: in training only, by the seed, and for each sample anew."""
    same = tuple(np.repeat(x[:1], 6, axis=0) for x in case.inputs)
    inference = call(case.weighted_layer(), same)
    assert_close(call(case.weighted_layer(), same, training=False), inference, 0)

    layer = case.weighted_layer()
    first, second = call(layer, same, training=True), call(layer, same, training=True)
    again = call(case.weighted_layer(), same, training=True)
    other = call(case.weighted_layer(seed=case.arguments["seed"] + 100), same, training=True)
    assert_close(again, first, TOLERANCE["float32"])
    for different in (inference, second, other):
        assert different.shape != first.shape or not np.allclose(different, first, rtol=1e-3)
    samples = {np.round(sample, 4).tobytes() for sample in first}
    assert len(samples) > 1, "all samples dropped the same"


def check_training_step(case):
    """One compiled step of SGD: a finite loss, which depends on the inputs and every variable.

    A linear map in front of the layer stands for the inputs: it learns if their gradient passes.
    """
    layer = case.weighted_layer()
    # A mean over tokens behind those that have fewer in training, which no target's shape fits.
    shapes = [shape_of_call(layer, case.inputs, training=training) for training in (False, True)]
    model = one_layer_model(layer, case.inputs, in_front=True, pooled=shapes[0] != shapes[1])
    trained = {v.path.removeprefix("tested/"): v for v in model.trainable_variables}
    assert len(trained) == len(case.variables) + len(case.inputs)
    before = {path: ops.convert_to_numpy(v) for path, v in trained.items()}
    model.compile(keras.optimizers.SGD(1.0), loss="mse")
    target = spread(tuple(model(list(case.inputs)).shape), seed="target")
    history = model.fit(list(case.inputs), target, batch_size=len(target), epochs=1, verbose=0)

    assert np.isfinite(history.history["loss"]).all()
    moved = {p: np.abs(ops.convert_to_numpy(v) - before[p]).max() for p, v in trained.items()}
    assert all(np.isfinite(distance) for distance in moved.values()), moved
    still = {path for path, distance in moved.items() if distance < MOVED}
    assert still == set(case.without_gradient), moved


def check_saved_file(case):
    """A `.keras` file gives the same model in a process that has only imported keras_vit."""
    layer = case.weighted_layer()
    model = one_layer_model(layer, case.inputs)
    outputs, config = fresh_process.load_and_call(model, case.inputs)
    assert_close(outputs, call(layer, case.inputs), 1e-6)
    assert config == as_json(model.get_config())


# --- Means -------------------------------------------------------------------------------------


def spread(shape, seed):
    """A float32 array, normal, with the deviation that a variable or input of that name suits.

    Factors are near one, and products of kernels keep their size over some 20 channels.
    """
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    mean = 1.0 if seed.endswith("gamma") else 0.0
    deviation = 1.0 if seed in ("inputs", "value", "target") else 0.2
    return (mean + deviation * rng.normal(size=shape)).astype("float32")


def random_weights(variables):
    """`{path: array}` for `{path: shape}`."""
    return {path: spread(shape, seed=path) for path, shape in variables.items()}


def random_inputs(*shape, seed="inputs"):
    """A float32 array, normal(0, 1)."""
    return spread(shape, seed)


def batch_free(x):
    return (None, *x.shape[1:])


def variable_shapes(layer):
    """`{path without the layer's own name: shape}` of the trainable variables."""
    return {relative_path(v, layer): tuple(v.shape) for v in layer.trainable_variables}


def relative_path(variable, layer):
    assert variable.path.startswith(layer.name + "/"), variable.path
    return variable.path.removeprefix(layer.name + "/")


def assign(layer, weights):
    """Assigns `{path: array}`; both must name the same variables."""
    variables = {relative_path(v, layer): v for v in layer.trainable_variables}
    assert set(variables) == set(weights)
    for path, variable in variables.items():
        variable.assign(weights[path])


def call(layer, inputs, **kwargs):
    """What the layer returns, as a NumPy array: float64 stays, 16 bits become float32."""
    return to_numpy(layer(*inputs, **kwargs))


def to_numpy(tensor):
    if keras.backend.standardize_dtype(tensor.dtype) != "float64":
        tensor = ops.cast(tensor, "float32")
    return ops.convert_to_numpy(tensor)


def shape_of_call(layer, inputs, **kwargs):
    if keras.backend.backend() != "jax":
        return tuple(layer(*inputs, **kwargs).shape)
    import jax

    def call_without_state(*x):
        with keras.StatelessScope():
            return layer(*x, **kwargs)

    return jax.eval_shape(call_without_state, *inputs).shape  # the real call, not compiled


def predict(model, inputs):
    """What `Model.predict` returns, which is compiled where the backend compiles by default."""
    return model.predict(list(inputs), batch_size=len(inputs[0]), verbose=0)


def one_layer_model(layer, arrays, in_front=False, pooled=False):
    """A functional model of the layer, with a linear map before each of its inputs if asked for.

    `pooled` adds the mean over its second axis.
    """
    inputs = [keras.Input(x.shape[1:]) for x in arrays]
    tensors = [_in_front(i, x) for i, x in enumerate(inputs)] if in_front else inputs
    outputs = layer(*tensors)
    return keras.Model(
        inputs, keras.layers.GlobalAveragePooling1D()(outputs) if pooled else outputs
    )


def _in_front(i, tensor):
    width = tensor.shape[-1]
    dense = keras.layers.Dense(
        width, use_bias=False, kernel_initializer="identity", name=f"in_front_{i}"
    )
    return dense(tensor)


def assert_close(actual, expected, tolerance):
    """Equal shapes, and errors of at most `tolerance` times the largest expected number."""
    actual, expected = np.asarray(actual, "float64"), np.asarray(expected, "float64")
    assert actual.shape == expected.shape
    error = np.abs(actual - expected).max()
    assert error <= tolerance * np.abs(expected).max(), f"error {error}"


def as_json(config):
    """The config as it comes back from a file; fails where JSON cannot hold it."""
    return json.loads(json.dumps(config))
