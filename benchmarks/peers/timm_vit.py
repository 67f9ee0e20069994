"""timm's VisionTransformer, and its hybrids."""

from peers.torch_models import TorchPeer

HYBRIDS = {"R50+B/16": "vit_base_r50_s16_224", "R26+S/32": "vit_small_r26_s32_224"}


class Peer(TorchPeer):
    def build(self, job):
        import timm

        if job.hybrid:
            if job.model not in HYBRIDS:
                raise ValueError(f"timm has no {job.model}")
            return timm.create_model(
                HYBRIDS[job.model], img_size=job.image_size, num_classes=job.classes
            )
        layers, heads, width, mlp = job.size
        return timm.models.VisionTransformer(
            job.image_size,
            job.patch_size,
            num_classes=job.classes,
            embed_dim=width,
            depth=layers,
            num_heads=heads,
            mlp_ratio=mlp / width,
        )
