"""Train in several PyTorch processes with `DistributedDataParallel` and a loop of your own.

    KERAS_BACKEND=torch torchrun --nproc-per-node 2 examples/train_torchrun.py

A model of Keras is a `torch.nn.Module`, so DDP wraps it as any other. Keras 3.15's own `fit` knows
nothing of the process group; `pipelines.distribute` teaches it, where you want `fit`.
"""

import argparse
import os

import keras
import torch
from torch.nn.parallel import DistributedDataParallel

import keras_vit
from pipelines.batches import training_batches
from pipelines.sources.fashion_mnist import fashion_mnist

IMAGE_SIZE = (28, 28)


def main(arguments=None):
    """Runs the example; returns the mean loss of each epoch over all processes."""
    options = parse(arguments)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # What torchrun has set says which process of how many this is.
    torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    losses = train(options, torch.distributed.get_rank(), torch.distributed.get_world_size())
    # Only now, when the wrapped model is gone: else the process may not end.
    torch.distributed.destroy_process_group()
    return losses


def train(options, rank, processes):
    """Trains this process's copy of the model on its share of the data."""
    keras.utils.set_random_seed(0)  # the same first weights everywhere
    model = keras_vit.VisionTransformer(
        image_size=IMAGE_SIZE,
        patch_size=4,
        num_layers=options.layers,
        num_heads=4,
        hidden_dim=64,
        mlp_dim=128,
        channels=1,
        classes=10,
        classifier_activation=None,
        include_preprocessing=True,
    )
    parallel = DistributedDataParallel(model)  # averages the gradients during `backward`
    optimizer = keras_vit.optimizers.AdamW(2e-3, weight_decay=0.05, global_clipnorm=1.0)
    images = [array[: options.examples][rank::processes] for array in fashion_mnist("train")]
    share = options.batch_size // processes
    batches = training_batches(*images, IMAGE_SIZE, share, seed=rank)
    losses = []
    for epoch in range(options.epochs):
        losses.append(mean([step(parallel, optimizer, *batch) for batch in batches]))
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}")
    return losses


def step(parallel, optimizer, images, labels):
    """One step on this process's share of a batch; returns its loss."""
    device = parallel.device
    images = torch.from_numpy(images.numpy()).to(device)
    labels = torch.from_numpy(labels.numpy()).long().to(device)
    parallel.zero_grad()
    loss = torch.nn.functional.cross_entropy(parallel(images, training=True), labels)
    loss.backward()
    variables = parallel.module.trainable_variables
    with torch.no_grad():
        optimizer.apply([variable.value.grad for variable in variables], variables)
    return loss.detach()


def mean(losses):
    """Over the steps of all processes."""
    total = torch.stack(losses).mean()
    torch.distributed.all_reduce(total)
    return total.item() / torch.distributed.get_world_size()


def parse(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256, help="over all processes")
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=4)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
