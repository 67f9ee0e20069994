"""A PyTorch model as a peer: what timm's and transformers' have in common."""

import contextlib

import torch

from peers import LEARNING_RATE, WEIGHT_DECAY
from peers.torchvision_alone import declare_operators

declare_operators()


class TorchPeer:
    """`inference_mode` and a plain loop, channels first; perhaps `torch.compile`d."""

    def __init__(self, job):
        torch.manual_seed(0)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.mixed = job.dtype == "mixed_bfloat16"
        dtype = torch.bfloat16 if job.dtype == "bfloat16" else torch.float32
        # Convolutions of a GPU want the channels last; those of a CPU gained nothing.
        layout = torch.channels_last if self.device == "cuda" else torch.contiguous_format
        self.model = self.build(job).to(self.device, dtype, memory_format=layout).eval()
        images = torch.from_numpy(job.images()).permute(0, 3, 1, 2)
        self.images = images.to(dtype).contiguous(memory_format=layout)
        self.labels = torch.from_numpy(job.labels()).to(self.device)
        self.resident = job.resident
        if job.resident:
            self.images = self.images.to(self.device)
        self._call = torch.compile(self.logits) if job.compiled else self.logits
        self._optimizer = None

    def build(self, job):
        raise NotImplementedError

    def logits(self, images):
        return self.model(images)

    def forward(self):
        with torch.inference_mode(), self._precision():
            logits = self._call(self.images.to(self.device))
        return logits.cpu() if self.resident else logits.float().cpu().numpy()

    def train(self, steps):
        if self._optimizer is None:
            self.model.train()
            self._optimizer = torch.optim.AdamW(
                self.model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY
            )
        for _ in range(steps):
            with self._precision():
                logits = self._call(self.images.to(self.device))
            loss = torch.nn.functional.cross_entropy(logits.float(), self.labels)
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
        return loss.item()

    def _precision(self):
        if not self.mixed:
            return contextlib.nullcontext()
        return torch.autocast(self.device, torch.bfloat16)
