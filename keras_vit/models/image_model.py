"""The Keras model that every builder returns: a functional graph that knows its spec."""

import keras

from keras_vit.models.families import spec_from_dict
from keras_vit.models.forward_pass import forward_pass
from keras_vit.models.image_spec import ImageSpec
from keras_vit.models.safe_training import SafeTraining
from keras_vit.models.spec import ViTSpec


@keras.saving.register_keras_serializable(package="keras_vit")
class ImageModel(SafeTraining, keras.Model):
    """A functional Keras model of images, with the spec that it was built from.

    It is made by the builders, for example `keras_vit.VisionTransformer`. It saves, loads,
    trains and takes surgery as any functional model; `spec` holds its sizes, grid and facts, in
    its config too. Images of another shape than the model's are refused by call, fit, evaluate and
    predict, before anything is computed.

    Attributes:
        spec: The spec, or None where the model was made without one, as by
            `keras.models.clone_model`. `ImageModel.from_config(model.get_config())` keeps it.
    """

    # `call` checks the images, in one voice on all backends; on JAX `fit` skips Keras's own check.
    input_spec = None

    # Keras treats a subclass as a functional model only with a constructor of these very names.
    def __init__(self, *args, **kwargs):
        spec = kwargs.pop("spec", None)
        super().__init__(*args, **kwargs)
        self.spec = spec_from_dict(spec) if isinstance(spec, dict) else spec
        self._forward_pass = forward_pass(self)

    def get_config(self):
        config = super().get_config()
        if self.spec is not None:
            config["spec"] = self.spec.to_dict()
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        model = super().from_config(config, custom_objects=custom_objects)
        for layer in model.layers:
            if not layer.trainable:  # Keras freezes the layer, but not the parts that it builds
                layer.trainable = True  # TensorFlow ignores a value that is there already
                layer.trainable = False
        return model

    def compile(self, optimizer="rmsprop", *args, **kwargs):
        # Keras scales the loss by the policy of the model itself, which is the global one, whatever
        # precision the model was built with. Unscaled, gradients in float16 vanish.
        half = getattr(self.spec, "dtype", None) == "mixed_float16"
        if half and kwargs.get("auto_scale_loss", True):
            optimizer = keras.optimizers.get(optimizer)
            if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        super().compile(optimizer, *args, **kwargs)

    def predict_on_batch(self, x):
        if keras.backend.backend() == "torch":
            # Converted within the step, arrays cut the model to pieces for PyTorch's compiler.
            x = keras.tree.map_structure(keras.ops.convert_to_tensor, x)
        return super().predict_on_batch(x)

    def call(self, inputs, training=None, mask=None):
        self._check_images(inputs)
        if self._forward_pass is not None and mask is None:
            return self._forward_pass(keras.tree.flatten(inputs)[0], training)
        return super().call(inputs, training=training, mask=mask)

    def _check_images(self, inputs):
        images = keras.tree.flatten(inputs)
        if len(images) != 1 or len(self.inputs) != 1:
            return  # a graph of several inputs, which Keras checks
        rank = getattr(images[0].shape, "rank", len(self.inputs[0].shape))  # None in TensorFlow
        shape = None if rank is None else tuple(images[0].shape)
        wanted = tuple(self.inputs[0].shape)
        if shape is None or len(shape) != len(wanted) or not _fits(shape[1:], wanted[1:]):
            raise ValueError(
                f"The model '{self.name}' takes images (batch, {', '.join(map(str, wanted[1:]))}), "
                f"with height, width and channels known. Received: shape={shape}. "
                f"{_advice(shape, wanted)}"
            )


def _advice(shape, wanted):
    if shape is not None and len(shape) == 4 and _fits(shape[2:] + shape[1:2], wanted[1:]):
        return "Channels come last: transpose the images by `(0, 2, 3, 1)`."
    return (
        "Reshape or resize the images, or resize the model: "
        "`keras_vit.resize(model, image_size=...)`."
    )


def _fits(sizes, wanted):
    """Whether all sizes are the wanted ones; a None is any, before a layer that resizes.

    By `==`, from which PyTorch's compiler learns a size that it had left open. Not by `in`.
    """
    return all(want is None or size == want for size, want in zip(sizes, wanted, strict=True))


def require_spec(model, purpose, families=(ViTSpec,)):
    """The model's spec, of one of these families.

    Raises:
        ValueError: if it has none, or one of another family; `purpose` is what was to be done.
    """
    spec = getattr(model, "spec", None)
    if isinstance(spec, ImageSpec) and not isinstance(spec, families):
        raise ValueError(
            f"`{purpose}` is for models of the families "
            f"{', '.join(repr(cls.family) for cls in families)}. "
            f"Received: model={model!r}, of the family {spec.family!r}."
        )
    if not isinstance(spec, ImageSpec):
        raise ValueError(
            f"`{purpose}` needs a model made by keras_vit, which knows its grid and its origin; "
            f"this one has no spec. Received: model={model!r}. A clone keeps it when it is made by "
            "`type(model).from_config(model.get_config())`."
        )
    return spec
