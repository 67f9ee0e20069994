"""PyTorch: a process group under torchrun, of which Keras 3.15's `fit` knows nothing.

Without the averaging here every process would train a model of its own, silently. Keras 3.16 wraps
models in DistributedDataParallel itself (https://github.com/keras-team/keras/pull/23316); the
average of equal gradients is then the same again.
"""

import datetime
import itertools
import os

import keras
import numpy as np

from pipelines.distribution import seeds, training
from pipelines.distribution.engine import Engine

# How long one process waits for another whose connection stays open though nothing comes. Gloo and
# NCCL would wait for half an hour and for ten minutes; the chief's writing has to fit into it.
PATIENCE = datetime.timedelta(minutes=10)
_GROUPS = itertools.count()


class TorchEngine(Engine):
    def start(self):
        self._refuse_kind("data")
        self._refuse_keras_distribution()
        import torch

        if self._processes > 1:
            if not torch.distributed.is_initialized():
                self._join(torch)
            self.hosts = torch.distributed.get_world_size()
            self.host = torch.distributed.get_rank()
        self.replicas = self.hosts
        self.enter_context(seeds.seeds_by_replica(lambda: self.host))
        self.enter_context(training.watched(self))

    def check(self, model):
        seeds.check_seeds(model)

    def prepare(self, model, data):
        if self.hosts > 1:
            _broadcast(model.variables)
            if model.optimizer is not None:
                _broadcast(model.optimizer.variables)
                average_gradients(model.optimizer)

    def metrics_result(self, model, result):
        if self.hosts == 1:
            return result()
        totals = _summed([variable.value.detach() for variable in model.metrics_variables])
        state = list(zip(model.metrics_variables, totals, strict=True))
        with keras.StatelessScope(state_mapping=state):
            return result()  # of sums and counts alike

    def lost_peer(self, error):
        closed = ("Connection reset by peer", "Connection closed by peer", "Broken pipe")
        return self.hosts > 1 and any(words in str(error) for words in closed)

    def gather(self, numbers):
        if self.hosts == 1:
            return super().gather(numbers)
        import torch

        shares = [None] * self.hosts
        torch.distributed.all_gather_object(shares, list(numbers))
        return shares

    def outputs_of_hosts(self, model, batches):
        mine = model.predict(batches, verbose=0)  # of this process, as without a distribution
        return self._rows_of_all(mine.reshape(int(batches.cardinality()), -1, *mine.shape[1:]))

    def _rows_of_all(self, rows):
        """(steps, b, ...) of this host -> (steps * hosts * b, ...)."""
        import torch

        mine = torch.from_numpy(np.ascontiguousarray(rows))
        if torch.cuda.is_available():
            mine = mine.cuda()  # NCCL gathers nothing else
        shares = [torch.empty_like(mine) for _ in range(self.hosts)]
        torch.distributed.all_gather(shares, mine)
        whole = torch.stack(shares, 1).cpu().numpy()  # (steps, hosts, b, ...)
        return whole.reshape(-1, *whole.shape[3:])

    def _join(self, torch):
        from torch.distributed.rendezvous import rendezvous

        gpu = torch.cuda.is_available()
        if gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
        # One group after another would read the addresses that the first has left in the store.
        store = torch.distributed.PrefixStore(f"keras_vit/{next(_GROUPS)}", store)
        torch.distributed.init_process_group(
            "nccl" if gpu else "gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE
        )
        self.callback(torch.distributed.destroy_process_group)


def _broadcast(variables):
    """Gives every process the chief's values."""
    import torch

    for variable in variables:
        torch.distributed.broadcast(variable.value.data, 0)


def average_gradients(optimizer):
    """Averages the gradients over the processes before the optimizer clips and applies them."""
    import torch

    if hasattr(optimizer, "_averages_gradients"):
        return
    apply = optimizer.apply

    def average_and_apply(gradients, trainable_variables=None):
        present = [gradient for gradient in gradients if gradient is not None]
        for gradient, total in zip(present, _summed(present), strict=True):
            gradient.copy_(total / torch.distributed.get_world_size())
        return apply(gradients, trainable_variables)

    optimizer.apply = average_and_apply
    optimizer._averages_gradients = True


def _summed(tensors):
    """The sums of these tensors over all processes, in one message for all of them."""
    import torch

    if not tensors:
        return []
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])  # of the widest type
    torch.distributed.all_reduce(flat)
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [
        part.view_as(tensor).to(tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)
    ]
