"""timm's VisionTransformer, and its hybrids."""

from peers.torch_models import TorchPeer

HYBRIDS = {"R50": "vit_base_r50_s16_224", "R26": "vit_small_r26_s32_224"}


class Peer(TorchPeer):
    def build(self, job):
        import timm

        layers, heads, width, mlp = job.size
        sizes = {
            "img_size": job.image_size,
            "num_classes": job.classes,
            "embed_dim": width,
            "depth": layers,
            "num_heads": heads,
            "mlp_ratio": mlp / width,
        }
        if job.hybrid:
            return timm.create_model(HYBRIDS[job.model.split("+")[0]], **sizes)
        return timm.models.VisionTransformer(patch_size=job.patch_size, **sizes)
