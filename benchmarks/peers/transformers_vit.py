"""transformers' ViTForImageClassification, with its default attention."""

from peers import refuse_hybrid
from peers.torch_models import TorchPeer


class Peer(TorchPeer):
    def build(self, job):
        import transformers

        refuse_hybrid(job, "transformers")
        layers, heads, width, mlp = job.size
        config = transformers.ViTConfig(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=mlp,
            image_size=job.image_size,
            patch_size=job.patch_size,
            num_labels=job.classes,
        )
        return transformers.ViTForImageClassification(config)

    def logits(self, images):
        return self.model(images).logits
