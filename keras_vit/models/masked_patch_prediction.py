"""Masked patch prediction: pretraining without labels."""

import dataclasses

import keras
import numpy as np
from keras import ops

from keras_vit.layers import checks
from keras_vit.layers.gather import gather
from keras_vit.models.build import build_model
from keras_vit.models.classifier import full_precision
from keras_vit.models.image_model import ImageModel, require_spec
from keras_vit.models.masked_patch_corruption import PatchCorruption
from keras_vit.models.masked_patch_reconstruction import reconstruct
from keras_vit.models.masked_patch_targets import TARGETS, cut, make_target
from keras_vit.models.rebuild import check_begins_at_images, check_same_paths
from keras_vit.models.resnet_stem import patch_stride
from keras_vit.models.safe_training import SafeTraining


@keras.saving.register_keras_serializable(package="keras_vit")
class MaskedPatchPrediction(SafeTraining, keras.Model):
    """Pretrains a Vision Transformer without labels (arXiv 2010.11929, section B.1.2).

    Half of the patch embeddings of an image are corrupted: 80 % of them become a learned mask
    token, 10 % another patch of the batch, 10 % stay. From what the encoder makes of them, one
    linear layer, zero at first, predicts what the patches looked like. The loss is the mean over
    the corrupted patches and nothing else.

    `fit` and `evaluate` take images, or pairs of which the labels are ignored; sample weights
    count. `compile` takes an optimizer and no loss. Training corrupts each batch anew;
    `evaluate` repeats the same corruption for batches of the same size, so its loss can be compared
    from epoch to epoch.

    Calling the model gives `{"predictions", "indices"}`: the corrupted patches of each sample,
    `(B, n)`, and for each of them logits `(B, n, 8**C)` for `"mean_color"`,
    `(B, n, 16, 8**C)` for `"downsampled"` or pixels `(B, n, h, w, C)` for `"pixels"`.

    Args:
        model: An `ImageModel` of a Vision Transformer, or a hybrid whose images are whole patches.
            Its encoder is trained in place; what is after its final norm, pooling and head, is
            left alone.
        target: `"mean_color"`, the patch's mean in 3 bits a channel, as one of 512 classes for
            RGB; `"downsampled"`, the same for the patch downsized to 4 x 4, 16 predictions; or
            `"pixels"`, all pixels by their squared error, in the scale that the encoder reads. The
            first two are for at most 4 channels.
        mask_ratio: Float in (0, 1], the share of patches that are corrupted.
        mask_share: Float, the chance that a corrupted patch becomes the mask token.
        random_share: Float, the chance that it becomes another patch of the batch. Otherwise it
            stays as it is.
        seed: Integer from which corruptions are drawn, or None for a random one.

    Attributes:
        encoder: The `ImageModel` from images to all normalised tokens that is trained. It shares
            its layers with the model given.

    Raises:
        ValueError: if the model has no spec, its patches are no parts of the image or are dropped,
            or an argument is out of range.

    Example:

    >>> pretraining = keras_vit.MaskedPatchPrediction(model, target="mean_color")
    >>> pretraining.compile(keras_vit.optimizers.AdamW(2e-4))
    >>> pretraining.fit(images, batch_size=64)
    >>> classifier = pretraining.to_classifier(10)
    """

    def __init__(
        self,
        model,
        target="mean_color",
        mask_ratio=0.5,
        mask_share=0.8,
        random_share=0.1,
        seed=None,
        **kwargs,
    ):
        spec = require_spec(model, "MaskedPatchPrediction")
        check_begins_at_images(model, "MaskedPatchPrediction")
        if spec.patch_dropout_rate:
            raise ValueError(
                "Masked patch prediction needs all patches, the corrupted ones too. Received: a "
                f"model with patch_dropout_rate={spec.patch_dropout_rate}. Build it without."
            )
        patch_size = _patch_pixels(spec)
        # Images reach the encoder and the targets as they are, not rounded to 16 bits.
        super().__init__(dtype=spec.dtype, autocast=False, **kwargs)
        self.target = checks.one_of(target, "target", (*TARGETS, "pixels"))
        self.model_spec = spec
        # In a function, where Keras does not track it: its head is no part of this model.
        self._given = lambda: model
        self.encoder = _token_encoder(model, spec)
        self._embed, self._encode = _split(self.encoder)
        self.corruption = PatchCorruption(
            mask_ratio, mask_share, random_share, seed, name="corruption", dtype=spec.dtype
        )
        self.prediction_target = make_target(target, spec, patch_size)
        self.prediction = keras.layers.Dense(
            self.prediction_target.units,
            kernel_initializer="zeros",
            name="prediction",
            dtype=full_precision(spec.dtype),
        )
        self.prediction_loss = self.prediction_target.loss()
        self.prediction_metrics = self.prediction_target.metrics()
        self.build(self.encoder.input_shape)

    def build(self, input_shape):
        rows, columns = self.model_spec.grid
        tokens = (None, rows * columns, self.model_spec.hidden_dim)
        for layer in (self.corruption, self.prediction):
            if not layer.built:
                layer.build(tokens)

    def call(self, images, training=None):
        patches = self._embed(images, training=training)  # (B, N, D)
        patches, indices = self.corruption(patches, training=training)
        tokens = self._encode(patches, training=training)  # (B, prefix + N, D)
        corrupted = gather(tokens[:, self.model_spec.prefix_tokens :], indices)  # (B, n, D)
        predictions = self.prediction_target.shape_predictions(self.prediction(corrupted))
        return {"predictions": predictions, "indices": indices}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The mean loss of the corrupted patches; `y` is ignored."""
        target = self.prediction_target
        patches = cut(x, self.model_spec.grid, target.patch_size)
        truth = target.of(gather(patches, y_pred["indices"]))
        predictions = target.flatten(y_pred["predictions"])
        if sample_weight is not None:
            sample_weight = ops.reshape(sample_weight, (-1, 1))  # the same for all of a sample
        for metric in self.prediction_metrics:
            metric.update_state(truth, predictions, sample_weight)
        loss = self.prediction_loss(truth, predictions, sample_weight)
        return sum((ops.sum(each) for each in self.losses), start=loss)  # and regularisation

    def reconstruct(self, images, batch_size=32):
        """Images, their corruption and what is predicted, as pictures of 0 to 1.

        Args:
            images: Array `(B, H, W, C)` as the model takes them.
            batch_size: Integer, images at a time.

        Returns:
            A `Reconstruction` of NumPy arrays. `keras_vit.analysis.plot_reconstruction` draws it.

        Raises:
            ValueError: if the images do not fit the model.
        """
        return reconstruct(self, images, batch_size)

    def to_classifier(self, classes, *, pooling=None, classifier_activation="same", name=None):
        """A classifier with the trained encoder and a new head, which is zero.

        It is an ordinary model of its own: training it leaves this one as it was. Everything of the
        encoder is carried over, positions and what is frozen too. There is no `representation_size`
        layer; a `"map"` pooling is fresh.

        Args:
            classes: Integer K.
            pooling: `"token"`, `"avg"`, `"max"` or `"map"`. None is that of the model given, or
                where it has none the class token, if there is one, else `"avg"`.
            classifier_activation: Name of an activation, or None for logits; "same" is that of the
                model given.
            name: Name of the classifier; None is the encoder's.

        Returns:
            An `ImageModel`, not compiled.

        Raises:
            ValueError: if the spec does not allow it, or the encoder has other variables than its
                spec describes.
        """
        spec = self.model_spec
        changes = {"include_top": True, "classes": classes, "class_names": None}
        changes["pooling"] = pooling or spec.pooling or ("token" if spec.class_token else "avg")
        if classifier_activation != "same":
            changes["classifier_activation"] = classifier_activation
        spec = dataclasses.replace(spec, representation_size=None, **changes)
        model = build_model(spec, name=name or self.encoder.name)
        _carry(self.encoder, model)
        return model

    def compile(self, optimizer="rmsprop", **kwargs):
        refused = ("loss", "loss_weights", "metrics", "weighted_metrics")
        received = {name: kwargs[name] for name in refused if kwargs.get(name) is not None}
        if received:
            raise ValueError(
                "`MaskedPatchPrediction` has its own loss and metrics, given by `target`: compile "
                f"it with an optimizer only. Received: {received}"
            )
        super().compile(optimizer, **kwargs)

    def get_config(self):
        return {
            "name": self.name,
            "trainable": self.trainable,
            "model": self._given().get_config(),
            "target": self.target,
            "mask_ratio": self.corruption.mask_ratio,
            "mask_share": self.corruption.mask_share,
            "random_share": self.corruption.random_share,
            "seed": self.corruption.seed,
        }

    @classmethod
    def from_config(cls, config):
        model = ImageModel.from_config(dict(config["model"]))  # Keras empties what it is given
        return cls(**{**config, "model": model})


def _patch_pixels(spec):
    """`(height, width)` of a token's patch in pixels of the image."""
    patch = patch_stride(spec.patch_size, spec.resnet)
    covered = tuple(cells * size for cells, size in zip(spec.grid, patch, strict=True))
    if covered != tuple(spec.image_size):
        raise ValueError(
            f"Masked patch prediction needs images of whole patches of {patch[0]} x {patch[1]} "
            "pixels; this hybrid rounds them up. "
            f"Received: image_size={spec.image_size}. `keras_vit.resize` the model to {covered}."
        )
    return patch


def _token_encoder(model, spec):
    """The part of the model from its images to all tokens, normalised; its layers are shared."""
    norm = model.get_layer("norm")
    if spec.norm_after_pool:
        tokens = norm(model.get_layer(f"block_{spec.num_layers - 1}").output)
    else:
        tokens = norm.output
    changes = {"pooling": None, "norm_after_pool": False, "representation_size": None}
    spec = dataclasses.replace(spec, include_top=False, **changes)
    return ImageModel(model.inputs, tokens, name=model.name, spec=spec)


def _split(encoder):
    """Two functions: from images to patch embeddings, and from those to tokens."""
    patches = encoder.get_layer("patch_embedding").output
    embed = ImageModel(encoder.inputs, patches, name=encoder.name)
    encode = keras.Model(patches, encoder.output)
    # As functions, for Keras would track models: their layers are the encoder's.
    return embed.__call__, encode.__call__


def _carry(encoder, model):
    """Copies weights and what is frozen; the model's pooling and head are its own."""
    targets = {variable.path: variable for variable in model.weights}
    own = {path for path in targets if path.split("/")[0] in ("head", "map_pooling")}
    sources = {variable.path: variable for variable in encoder.weights}
    check_same_paths(sources, {p: targets[p] for p in targets.keys() - own}, "to_classifier")
    for layer in encoder.layers[1:]:
        model.get_layer(layer.name).trainable = layer.trainable
    for path, source in sources.items():
        # A copy: on JAX an array that two models share is gone once one of them was trained.
        targets[path].assign(np.array(ops.convert_to_numpy(source)))
        targets[path].trainable = source.trainable
