"""Lower learning rates for lower layers."""

import re

from keras_vit.layers import checks
from keras_vit.models.image_model import require_spec


def layerwise_factors(model, decay):
    """Factors of the learning rate that fall from the head to the patches (arXiv 2106.08254).

    The head and the last norm have 1, the last block has `decay`, the block below `decay**2`, and
    all that comes before the blocks `decay**(L + 1)`.

    Args:
        model: A Vision Transformer; what is frozen is left out.
        decay: Float, from 0 up to 1.

    Returns:
        A dict for `rate_factors` of the optimizers here.

    Raises:
        ValueError: if the model has no blocks to go by.

    Example:

    >>> factors = keras_vit.optimizers.layerwise_factors(model, 0.75)
    >>> model.compile(keras_vit.optimizers.AdamW(1e-3, weight_decay=0.05, rate_factors=factors))
    """
    spec = require_spec(model, "layerwise_factors")
    decay = checks.positive_number(decay, "decay")
    if decay > 1:
        raise ValueError(f"`decay` must be at most 1. Received: decay={decay}")
    factors = {}
    for path in (variable.path for variable in model.trainable_variables):
        first = path.split("/")[0]
        below = _layers_above(first, spec.num_layers)
        if below:
            factors[f"^{re.escape(first)}/"] = decay**below
    return factors


def _layers_above(name, num_layers):
    """How many blocks, or the patches' layer, lie between a layer and the head."""
    if name in ("norm", "map_pooling", "pre_logits", "head"):
        return 0
    block = re.fullmatch(r"(?:block|position_embedding)_(\d+)", name)
    # Positions that are added before a block belong to it.
    return num_layers - int(block[1]) if block else num_layers + 1
