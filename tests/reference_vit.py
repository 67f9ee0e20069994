"""The Vision Transformer in plain NumPy float64: the numbers that the library's tests compare with.

Written from the equations alone, knowing nothing of the library: it shares only the names of
the spec's fields and of the variables, so a mistake in one is not repeated in the other.
Clarity is bought with speed: use small models.

Letters: B images, H x W pixels, C channels, (gh, gw) grid, N tokens, P prefix tokens (class
token, then registers), D hidden_dim, h heads, d = D / h, M mlp_dim, r representation_size,
K classes. Tokens stand in the order [class token, registers, patches row by row].
"""

import math
import zlib

import numpy as np

ORIGINS = {
    "google": {
        "activation": "gelu_tanh",
        "layer_norm_epsilon": 1e-6,
        "interpolation": "bilinear",
    },
    "timm": {
        "activation": "gelu",
        "layer_norm_epsilon": 1e-6,
        "interpolation": "bicubic_antialias",
    },
    "huggingface": {
        "activation": "gelu",
        "layer_norm_epsilon": 1e-12,
        "interpolation": "bicubic",
    },
}

# A model that is quick to compute and in which no two sizes that could be confused are equal.
SMALL = {
    "image_size": (24, 40),
    "patch_size": (8, 8),
    "channels": 3,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 24,
    "mlp_dim": 40,
    "classes": 5,
    "include_top": True,
    "classifier_activation": None,
    "pooling": "token",
    "representation_size": None,
    "position_embedding": "learned",
    "position_injection": "stem",
    "class_token": True,
    "class_token_position": True,
    "num_registers": 0,
    "norm_after_pool": False,
    "layer_scale": None,
    "qk_norm": False,
    "origin": "google",
    "resnet": None,
    "resnet_width": 1.0,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "drop_path_rate": 0.0,
    "patch_dropout_rate": 0.0,
    "include_preprocessing": False,
    "dtype": None,
    "preprocessing": None,
    "class_names": None,
}


def make_spec(**fields):
    """A complete spec: a small model with `fields` changed and the constants of its origin."""
    origin = fields.get("origin", SMALL["origin"])
    defaults = {**SMALL, **ORIGINS[origin]}
    unknown = sorted(set(fields) - set(defaults))
    if unknown:
        raise ValueError(f"A spec has no such fields: {unknown}. It has {sorted(defaults)}.")
    return {**defaults, **fields}


# What follows from a spec.


def grid(spec):
    """(gh, gw): patches that fit; pixels left over at the bottom and right are not seen."""
    return tuple(s // p for s, p in zip(spec["image_size"], spec["patch_size"], strict=True))


def prefix_tokens(spec):
    return int(spec["class_token"]) + spec["num_registers"]


def position_prefix(spec):
    """How many prefix tokens have a position of their own: all or none."""
    return prefix_tokens(spec) if spec["class_token_position"] else 0


def pooling(spec):
    """The pooling in force: with a classifier on top, None means the class token."""
    return spec["pooling"] or ("token" if spec["include_top"] else None)


def position_layers(spec):
    """The position layer in front of each block, by name; None where nothing is added."""
    num_layers = spec["num_layers"]
    if spec["position_embedding"] in ("none", "relative"):
        return [None] * num_layers
    if spec["position_injection"] == "stem":
        return ["position_embedding"] + [None] * (num_layers - 1)
    if spec["position_injection"] == "shared":
        return ["position_embedding"] * num_layers
    return ["position_embedding"] + [f"position_embedding_{i}" for i in range(1, num_layers)]


# Elementary functions.


def layer_norm(x, gamma, beta, epsilon):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x):
    """x Phi(x), with the normal distribution's own Phi."""
    return x * (1 + _erf(x / math.sqrt(2))) / 2


def gelu_tanh(x):
    """The approximation of `gelu` by a hyperbolic tangent."""
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def relu(x):
    return np.maximum(x, 0)


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu}


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def under(weights, name):
    """The weights of one layer, keyed by what follows `name/`."""
    start = name + "/"
    return {path[len(start) :]: w for path, w in weights.items() if path.startswith(start)}


def dense(x, weights):
    return x @ weights["kernel"] + weights["bias"]


def norm(x, weights, epsilon):
    return layer_norm(x, weights["gamma"], weights["beta"], epsilon)


# From pixels to tokens.


def patch_embedding(images, kernel, bias):
    """(B, H, W, C) with (ph, pw, C, D) -> (B, gh * gw, D): each patch by the same matrix."""
    ph, pw, _, hidden_dim = kernel.shape
    batch, height, width, channels = images.shape
    gh, gw = height // ph, width // pw
    patches = images[:, : gh * ph, : gw * pw].reshape(batch, gh, ph, gw, pw, channels)
    patches = patches.transpose(0, 1, 3, 2, 4, 5).reshape(batch, gh * gw, ph * pw * channels)
    return patches @ kernel.reshape(-1, hidden_dim) + bias


def prepend_prefix(patches, spec, weights):
    """(B, gh * gw, D) -> (B, N, D)."""
    parts = [patches]
    if spec["num_registers"]:
        parts.insert(0, weights["register_tokens/tokens"])
    if spec["class_token"]:
        parts.insert(0, weights["class_token/token"])
    batch = len(patches)
    return np.concatenate([np.broadcast_to(p, (batch, *p.shape[1:])) for p in parts], axis=1)


# Positions. Each kind gives one row for every patch, and perhaps for every prefix token.


def sincos2d_positions(grid_size, hidden_dim):
    """(gh * gw, D): [sin, cos] of the column, then [sin, cos] of the row, at D / 4 frequencies."""
    gh, gw = grid_size
    num_frequencies = hidden_dim // 4
    omega = 10000.0 ** (-np.arange(num_frequencies) / (num_frequencies - 1))
    rows, columns = np.divmod(np.arange(gh * gw), gw)
    x, y = columns[:, None] * omega, rows[:, None] * omega
    return np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=-1)


def learned_2d_positions(rows, columns):
    """(gh, D/2), (gw, D/2) -> (gh * gw, D): the column's half, then the row's half."""
    gh, gw = len(rows), len(columns)
    return np.concatenate([np.tile(columns, (gh, 1)), np.repeat(rows, gw, axis=0)], axis=-1)


def positions(spec, weights):
    """(N, D), what one position layer adds. Prefix tokens without a position get zeros."""
    if spec["position_embedding"] == "learned":
        rows = weights["table"][0]
    elif spec["position_embedding"] == "learned_2d":
        rows = learned_2d_positions(weights["rows"], weights["columns"])
        if position_prefix(spec):
            rows = np.concatenate([weights["prefix"][0], rows])
    else:
        rows = sincos2d_positions(grid(spec), spec["hidden_dim"])
    gh, gw = grid(spec)
    missing = prefix_tokens(spec) + gh * gw - len(rows)
    return np.concatenate([np.zeros((missing, spec["hidden_dim"])), rows])


def relative_offsets(table, prefix, grid_size, num_prefix):
    """(2 gh - 1, 2 gw - 1, d), (2 P + P * P, d) -> (N, N, d): the vector for each query and key.

    Between patches it depends on how many rows and columns lie between them. Prefix tokens have
    no place on the grid: there is one vector from each to all patches, one from all patches to
    each, and one for each pair of prefix tokens.
    """
    gh, gw = grid_size
    p, num_tokens = num_prefix, num_prefix + gh * gw
    rows, columns = np.divmod(np.arange(gh * gw), gw)
    offsets = np.empty((num_tokens, num_tokens, table.shape[-1]))
    offsets[p:, p:] = table[
        rows[:, None] - rows[None, :] + gh - 1, columns[:, None] - columns[None, :] + gw - 1
    ]
    if p:
        offsets[:p, p:] = prefix[:p, None]
        offsets[p:, :p] = prefix[None, p : 2 * p]
        offsets[:p, :p] = prefix[2 * p :].reshape(p, p, -1)
    return offsets


def block_offsets(spec, weights):
    """The relative offsets of one block's attention, or None."""
    if spec["position_embedding"] != "relative":
        return None
    gh, gw = grid(spec)
    table = weights["table"].reshape(2 * gh - 1, 2 * gw - 1, -1)
    prefix = weights["prefix"] if prefix_tokens(spec) else None
    return relative_offsets(table, prefix, (gh, gw), prefix_tokens(spec))


# The encoder.


def heads(x, weights):
    """(B, N, D) with (D, h, d) -> (B, h, N, d)."""
    return np.einsum("bnc,chd->bhnd", x, weights["kernel"]) + weights["bias"][:, None, :]


def attention(queries, tokens, weights, *, qk_norm=False, epsilon=None, offsets=None):
    """(B, Q, D) looks at (B, N, D) -> output (B, Q, D) and attention weights (B, h, Q, N)."""
    query = heads(queries, under(weights, "query"))
    key = heads(tokens, under(weights, "key"))
    value = heads(tokens, under(weights, "value"))
    if qk_norm:
        query = norm(query, under(weights, "query_norm"), epsilon)
        key = norm(key, under(weights, "key_norm"), epsilon)
    query = query / math.sqrt(query.shape[-1])
    logits = np.einsum("bhqd,bhkd->bhqk", query, key)
    if offsets is not None:
        logits = logits + np.einsum("bhqd,qkd->bhqk", query, offsets)
    probabilities = softmax(logits)
    mixed = np.einsum("bhqk,bhkd->bhqd", probabilities, value)
    output = np.einsum("bhqd,hdc->bqc", mixed, weights["output/kernel"])
    return output + weights["output/bias"], probabilities


def mlp(x, weights, activation):
    """(B, N, D) -> (B, N, M) -> (B, N, D)."""
    hidden = ACTIVATIONS[activation](dense(x, under(weights, "hidden")))
    return dense(hidden, under(weights, "output"))


def encoder_block(x, spec, weights):
    """(B, N, D) -> (B, N, D) and its attention weights: the paper's equations 2 and 3."""
    epsilon = spec["layer_norm_epsilon"]
    normed = norm(x, under(weights, "attention_norm"), epsilon)
    update, probabilities = attention(
        normed,
        normed,
        under(weights, "attention"),
        qk_norm=spec["qk_norm"],
        epsilon=epsilon,
        offsets=block_offsets(spec, under(weights, "attention/relative_position")),
    )
    x = x + scaled(update, spec, weights, "attention_scale")
    normed = norm(x, under(weights, "mlp_norm"), epsilon)
    update = mlp(normed, under(weights, "mlp"), spec["activation"])
    return x + scaled(update, spec, weights, "mlp_scale"), probabilities


def scaled(update, spec, weights, name):
    """Layer scale: each channel of a branch by its own factor."""
    return update if spec["layer_scale"] is None else update * weights[f"{name}/gamma"]


# From tokens to logits.


def map_pooling(tokens, spec, weights):
    """(B, N, D) -> (B, D): a learned probe looks at all tokens. It is no residual itself."""
    probe = np.broadcast_to(weights["probe"], (len(tokens), 1, spec["hidden_dim"]))
    x, _ = attention(probe, tokens, under(weights, "attention"))
    normed = norm(x, under(weights, "norm"), spec["layer_norm_epsilon"])
    return (x + mlp(normed, under(weights, "mlp"), spec["activation"]))[:, 0]


def pool(tokens, spec, weights):
    """(B, N, D) -> (B, D). Averages and maxima are over patches only."""
    kind = pooling(spec)
    if kind == "token":
        if not spec["class_token"]:
            raise ValueError("Token pooling reads the class token, and this spec has none.")
        return tokens[:, 0]
    if kind == "map":
        return map_pooling(tokens, spec, under(weights, "map_pooling"))
    patches = tokens[:, prefix_tokens(spec) :]
    return patches.mean(axis=1) if kind == "avg" else patches.max(axis=1)


def classify(pooled, spec, weights):
    """(B, D) -> (B, r or D) that the classifier reads, and its (B, K) logits."""
    if spec["representation_size"] is not None:
        pooled = np.tanh(dense(pooled, under(weights, "pre_logits")))
    return pooled, dense(pooled, under(weights, "head"))


def encode(x, spec, weights):
    """(B, N, D) -> the tokens after every block and the attention weights in every block."""
    tokens, maps = [], []
    for i, layer in enumerate(position_layers(spec)):
        if layer is not None:
            x = x + positions(spec, under(weights, layer))
        x, probabilities = encoder_block(x, spec, under(weights, f"block_{i}"))
        tokens.append(x)
        maps.append(probabilities)
    return tokens, maps


def forward(spec, weights, images):
    """Everything a test may want to look at, for images (B, H, W, C) as the first layer sees them.

    Returns a dict: "tokens", a list of (B, N, D) after each block; "attention", a list of
    (B, h, N, N); "encoded" (B, N, D), all tokens after the final norm (before it where the norm
    follows the pooling); "pooled" (B, D), normalised in either case; "pre_logits" (B, D or r),
    what the classifier reads; "logits" (B, K), before any classifier activation. What the model
    does not have is None. Dropout, drop path and preprocessing are not computed.
    """
    if spec["resnet"] is not None:
        raise NotImplementedError("This reference has no ResNet stem: spec['resnet'] must be None.")
    weights = {path: np.asarray(value, np.float64) for path, value in weights.items()}
    images = np.asarray(images, np.float64)

    x = patch_embedding(images, weights["patch_embedding/kernel"], weights["patch_embedding/bias"])
    x = prepend_prefix(x, spec, weights)
    tokens, maps = encode(x, spec, weights)
    result = {"tokens": tokens, "attention": maps, "encoded": tokens[-1]}
    result.update(dict.fromkeys(("pooled", "pre_logits", "logits")))

    def final_norm(x):
        return norm(x, under(weights, "norm"), spec["layer_norm_epsilon"])

    if not spec["norm_after_pool"]:
        result["encoded"] = final_norm(result["encoded"])
    if pooling(spec) is not None:
        pooled = pool(result["encoded"], spec, weights)
        result["pooled"] = final_norm(pooled) if spec["norm_after_pool"] else pooled
    if spec["include_top"]:
        result["pre_logits"], result["logits"] = classify(result["pooled"], spec, weights)
    return result


# The variables of a model, and values for them.


def _norm_shapes(name, size):
    return {f"{name}/gamma": (size,), f"{name}/beta": (size,)}


def _dense_shapes(name, inputs, outputs):
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _attention_shapes(name, spec):
    hidden_dim, num_heads = spec["hidden_dim"], spec["num_heads"]
    head_dim = hidden_dim // num_heads
    shapes = {}
    for part in ("query", "key", "value"):
        shapes[f"{name}/{part}/kernel"] = (hidden_dim, num_heads, head_dim)
        shapes[f"{name}/{part}/bias"] = (num_heads, head_dim)
    shapes[f"{name}/output/kernel"] = (num_heads, head_dim, hidden_dim)
    shapes[f"{name}/output/bias"] = (hidden_dim,)
    return shapes


def _mlp_shapes(name, spec):
    hidden_dim, mlp_dim = spec["hidden_dim"], spec["mlp_dim"]
    return {
        **_dense_shapes(f"{name}/hidden", hidden_dim, mlp_dim),
        **_dense_shapes(f"{name}/output", mlp_dim, hidden_dim),
    }


def _embedding_shapes(spec):
    hidden_dim = spec["hidden_dim"]
    shapes = {
        "patch_embedding/kernel": (*spec["patch_size"], spec["channels"], hidden_dim),
        "patch_embedding/bias": (hidden_dim,),
    }
    if spec["num_registers"]:
        shapes["register_tokens/tokens"] = (1, spec["num_registers"], hidden_dim)
    if spec["class_token"]:
        shapes["class_token/token"] = (1, 1, hidden_dim)
    return shapes


def _position_shapes(name, spec):
    (gh, gw), prefix, hidden_dim = grid(spec), position_prefix(spec), spec["hidden_dim"]
    if spec["position_embedding"] == "learned":
        return {f"{name}/table": (1, prefix + gh * gw, hidden_dim)}
    if spec["position_embedding"] == "sincos2d":
        return {}
    shapes = {f"{name}/rows": (gh, hidden_dim // 2), f"{name}/columns": (gw, hidden_dim // 2)}
    if prefix:
        shapes[f"{name}/prefix"] = (1, prefix, hidden_dim)
    return shapes


def _relative_shapes(name, spec):
    (gh, gw), prefix = grid(spec), prefix_tokens(spec)
    head_dim = spec["hidden_dim"] // spec["num_heads"]
    shapes = {f"{name}/table": (2 * gh - 1, 2 * gw - 1, head_dim)}
    if prefix:
        shapes[f"{name}/prefix"] = (2 * prefix + prefix * prefix, head_dim)
    return shapes


def _block_shapes(name, spec):
    hidden_dim = spec["hidden_dim"]
    shapes = _norm_shapes(f"{name}/attention_norm", hidden_dim)
    shapes.update(_attention_shapes(f"{name}/attention", spec))
    if spec["qk_norm"]:
        for part in ("query_norm", "key_norm"):
            size = hidden_dim // spec["num_heads"]
            shapes.update(_norm_shapes(f"{name}/attention/{part}", size))
    if spec["position_embedding"] == "relative":
        shapes.update(_relative_shapes(f"{name}/attention/relative_position", spec))
    shapes.update(_norm_shapes(f"{name}/mlp_norm", hidden_dim))
    shapes.update(_mlp_shapes(f"{name}/mlp", spec))
    if spec["layer_scale"] is not None:
        shapes[f"{name}/attention_scale/gamma"] = (hidden_dim,)
        shapes[f"{name}/mlp_scale/gamma"] = (hidden_dim,)
    return shapes


def _top_shapes(spec):
    hidden_dim, size = spec["hidden_dim"], spec["representation_size"]
    shapes = {}
    if not spec["norm_after_pool"] or pooling(spec) is not None:
        shapes.update(_norm_shapes("norm", hidden_dim))
    if pooling(spec) == "map":
        shapes["map_pooling/probe"] = (1, 1, hidden_dim)
        shapes.update(_attention_shapes("map_pooling/attention", spec))
        shapes.update(_norm_shapes("map_pooling/norm", hidden_dim))
        shapes.update(_mlp_shapes("map_pooling/mlp", spec))
    if spec["include_top"]:
        if size is not None:
            shapes.update(_dense_shapes("pre_logits", hidden_dim, size))
        shapes.update(_dense_shapes("head", size or hidden_dim, spec["classes"]))
    return shapes


def variable_shapes(spec):
    """{path: shape} of every variable of a model without a ResNet."""
    shapes = _embedding_shapes(spec)
    for layer in filter(None, position_layers(spec)):
        shapes.update(_position_shapes(layer, spec))
    for i in range(spec["num_layers"]):
        shapes.update(_block_shapes(f"block_{i}", spec))
    shapes.update(_top_shapes(spec))
    return shapes


def _random_variable(path, shape, seed):
    # Seeded by path: a variable keeps its values when another one comes or goes. float32: what
    # a float32 model is given is then exactly what the reference computes with.
    rng = np.random.default_rng([seed, zlib.crc32(path.encode())])
    mean, deviation = (1, 0.2) if path.endswith("/gamma") else (0, 0.2)
    if path.endswith("/kernel"):
        deviation = 0.15  # keeps activations near one at some 40 channels: softmax stays soft
    return (mean + deviation * rng.normal(size=shape)).astype(np.float32)


def random_weights(spec, seed):
    """{path: float32 array} for every variable, well spread, so that a swapped axis shows."""
    return {p: _random_variable(p, s, seed) for p, s in variable_shapes(spec).items()}


def random_images(spec, seed, batch=2):
    """(B, H, W, C) float32 in [-1, 1]."""
    shape = (batch, *spec["image_size"], spec["channels"])
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
