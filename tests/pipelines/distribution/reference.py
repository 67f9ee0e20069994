"""The training run of `worker.py` written once more, in PyTorch's float64 and without Keras.

It made `tests/goldens/distributed_training.npz`:

    PYTHONPATH=.:tests KERAS_BACKEND=torch python tests/pipelines/distribution/reference.py
"""

import pathlib
import sys

import torch
import torch.nn.functional as F

GOLDEN = pathlib.Path(__file__).parents[2] / "goldens" / "distributed_training.npz"
KEPT = ("head/kernel", "block_1/attention/query/bias", "block_0/mlp/hidden/bias", "norm/gamma")


def train(weights, batches, epochs, learning_rate=0.1, momentum=0.9, clip=0.5):
    """(mean loss of each epoch, weights after all) of SGD with momentum and a global clip.

    Args:
        weights: `{path: array}`.
        batches: List of `(images, labels)`, each seen once an epoch, in order.
    """

    def tensor(x):
        return torch.tensor(x, dtype=torch.float64, requires_grad=True)

    w = {path: tensor(x) for path, x in weights.items()}
    velocity = {path: torch.zeros_like(x) for path, x in w.items()}
    losses = []
    for _ in range(epochs):
        total = 0.0
        for images, labels in batches:
            logits = forward(w, torch.tensor(images, dtype=torch.float64))
            loss = F.cross_entropy(logits, torch.tensor(labels, dtype=torch.int64))
            gradients = dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))
            norm = sum((g**2).sum() for g in gradients.values()).sqrt()
            with torch.no_grad():
                for path, variable in w.items():
                    step = gradients[path] * min(1.0, clip / norm.item())
                    velocity[path] = momentum * velocity[path] - learning_rate * step
                    variable += velocity[path]
            total += loss.item() / len(batches)
        losses.append(total)
    return losses, {path: x.detach().numpy() for path, x in w.items()}


def forward(w, images):
    """Logits of the model of `worker.build`."""
    tokens = _patches(images, w["patch_embedding/kernel"]) + w["patch_embedding/bias"]
    class_token = w["class_token/token"].expand(len(images), -1, -1)
    x = torch.cat([class_token, tokens], 1) + w["position_embedding/table"]
    for block in ("block_0/", "block_1/"):
        x = x + _attention(w, block, _norm(w, block + "attention_norm", x))
        hidden = _dense(w, block + "mlp/hidden", _norm(w, block + "mlp_norm", x))
        x = x + _dense(w, block + "mlp/output", F.gelu(hidden, approximate="tanh"))
    return _dense(w, "head", _norm(w, "norm", x)[:, 0])


def _patches(images, kernel):
    """(B, 8, 12, 3) and (4, 4, 3, D) -> (B, 2 * 3, D), row by row."""
    size = kernel.shape[0]
    parts = images.unfold(1, size, size).unfold(2, size, size)  # (B, rows, columns, C, h, w)
    return torch.einsum("brcxij,ijxd->brcd", parts, kernel).flatten(1, 2)


def _attention(w, block, x):
    def heads(name):
        path = f"{block}attention/{name}"
        return torch.einsum("bnd,dhk->bhnk", x, w[path + "/kernel"]) + w[path + "/bias"][:, None]

    query, key, value = heads("query"), heads("key"), heads("value")
    logits = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
    mixed = logits.softmax(-1) @ value
    path = f"{block}attention/output"
    return torch.einsum("bhnk,hkd->bnd", mixed, w[path + "/kernel"]) + w[path + "/bias"]


def _dense(w, name, x):
    return x @ w[name + "/kernel"] + w[name + "/bias"]


def _norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[name + "/gamma"], w[name + "/beta"], 1e-6)


def run():
    """The numbers of the golden, {name: array}."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import worker

    model = worker.build()
    worker.assign(model)
    weights = {variable.path: worker.value(variable) for variable in model.weights}
    pixels, labels = worker.images(worker.BATCH * worker.STEPS, 1)
    batches = [
        (pixels[start : start + worker.BATCH], labels[start : start + worker.BATCH])
        for start in range(0, len(pixels), worker.BATCH)
    ]
    losses, trained = train(weights, batches, worker.EPOCHS)
    pixels, labels = worker.images(worker.RAGGED, 2)
    final = {path: torch.tensor(x) for path, x in trained.items()}
    logits = forward(final, torch.tensor(pixels, dtype=torch.float64))
    loss = float(F.cross_entropy(logits, torch.tensor(labels, dtype=torch.int64)))
    accuracy = float((logits.argmax(-1).numpy() == labels).mean())
    kept = {f"weight/{path}": trained[path] for path in KEPT}
    evaluated = {"evaluate/loss": loss, "evaluate/accuracy": accuracy}
    return {"history/loss": losses, "predictions": logits.numpy(), **evaluated, **kept}


if __name__ == "__main__":
    import numpy as np

    np.savez(GOLDEN, **run())
