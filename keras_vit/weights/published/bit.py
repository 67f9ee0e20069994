"""The BiT ResNets that Google publishes."""

from keras_vit.weights.published.entry import (
    FINE_TUNED,
    I1K,
    I21K,
    TIMM_RESULTS,
    google_file,
    measured,
)

BIT = "https://storage.googleapis.com/bit_models"
BIG_TRANSFER = "google-research/big_transfer, README.md"
BIT_MODELS = "google-research/big_transfer, README.md and bit_pytorch/models.py"
FUNMATCH = "google-research/big_vision, configs/proj/distill/README.md"

# (architecture, resolution and top-1 of what was fine-tuned). Resolutions as timm evaluates them
# (huggingface/pytorch-image-models, models/resnetv2.py): the file does not tell.
RELEASED = (
    ("R50x1", 448, 80.34),
    ("R50x3", 448, 84.02),
    ("R101x1", 448, 82.34),
    ("R101x3", 448, 84.44),
    ("R152x2", 448, 84.51),
    ("R152x4", 480, 84.92),
)

ENTRIES = (
    *(
        google_file(f"BiT_{a}", "bit_s_imagenet", f"{BIT}/BiT-S-{a}", I1K, 224, BIT_MODELS)
        for a, _, _ in RELEASED
    ),
    *(
        google_file(f"BiT_{a}", "bit_m_imagenet21k", f"{BIT}/BiT-M-{a}", I21K, 224, BIG_TRANSFER)
        for a, _, _ in RELEASED
    ),
    *(
        google_file(
            f"BiT_{a}",
            f"bit_m_imagenet21k_ft_imagenet_{side}",
            f"{BIT}/BiT-M-{a}-ILSVRC2012",
            FINE_TUNED,
            side,
            BIG_TRANSFER,
            **measured(top1, TIMM_RESULTS),
        )
        for a, side, top1 in RELEASED
    ),
    *(
        google_file(
            model,
            name,
            f"{BIT}/distill/{file}",
            kind,
            side,
            FUNMATCH,
            **measured(top1, FUNMATCH),
        )
        for model, name, file, kind, side, top1 in (
            ("BiT_R50x1", "distilled_imagenet_224", "R50x1_224", I1K, 224, 82.8),
            ("BiT_R50x1", "distilled_imagenet_160", "R50x1_160", I1K, 160, 80.5),
            (
                "BiT_R152x2",
                "teacher_imagenet21k_ft_imagenet_224",
                "R152x2_T_224",
                FINE_TUNED,
                224,
                83.0,
            ),
            (
                "BiT_R152x2",
                "teacher_imagenet21k_ft_imagenet_384",
                "R152x2_T_384",
                FINE_TUNED,
                384,
                84.3,
            ),
        )
    ),
)
