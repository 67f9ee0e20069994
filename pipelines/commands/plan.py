"""Says whether a training step fits: memory of each device and multiply-adds, by layout.

Parameters, gradients and optimizer are exact, to the byte. Activations are an estimate: XLA's own
account was 0.88 to 1.06 of it for small models of 65 to 257 tokens in float32 on a CPU; in 16 bits
and rematerialised it is not measured.
"""

import keras

import keras_vit
from pipelines import planning
from pipelines.distribution.spec import parse
from pipelines.sizes import size

EXAMPLE = "keras-vit plan ViT_H14 --batch 4096 --devices 256 --device-memory 16"

OPTIMIZERS = {
    "adamw": lambda: keras_vit.optimizers.AdamW(1e-3),
    "sgd": lambda: keras.optimizers.SGD(1e-2, momentum=0.9),
}


def add_arguments(parser):
    parser.add_argument("model", metavar="MODEL", help="a constructor, such as ViT_H14")
    parser.add_argument("--image-size", type=size, metavar="HxW", help="224x224 if not given")
    parser.add_argument("--batch", type=int, required=True, help="images a step, on all devices")
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="1 if not given")
    parser.add_argument(
        "--device-memory", type=float, metavar="GIB", help="of each, to say whether it fits"
    )
    parser.add_argument(
        "--distribute", metavar="SPEC", help="data, model:BxM or fsdp:N; all that divide if none"
    )
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    parser.add_argument("--dtype", default="mixed_bfloat16", help="policy; mixed_bfloat16 if none")


def run(options):
    model = planning.model_without_values(options.model, options.image_size, options.dtype)
    optimizer = OPTIMIZERS[options.optimizer]()
    if options.distribute is not None:
        specs = [parse(options.distribute)]
    else:
        specs = planning.layouts(model, options.devices)
    plans, refusals = [], []
    for spec in specs:
        try:
            plans.append(planning.plan(model, optimizer, options.batch, spec, options.devices))
        except ValueError as error:  # a layout that does not divide is no choice
            refusals.append(error)
    if not plans:
        raise refusals[0]
    print(_title(options, model))
    print("\n".join(_table(plans, options.device_memory)))


def _title(options, model):
    height, width = model.spec.image_size
    return (
        f"{options.model} at {height}x{width}, {model.count_params():,} parameters, "
        f"{options.dtype}, {options.optimizer}, {options.batch} images on {options.devices} "
        "devices.\nGiB and multiply-adds of each device; 'again' where blocks are computed twice "
        "(rematerialised)."
    )


def _table(plans, memory):
    yield (
        f"{'layout':<14}{'params':>8}{'grads':>8}{'optim':>8}{'activ':>9}{'total':>9}"
        f"{'T macs':>9}   {'again':>7}{'total':>9}{'T macs':>9}" + ("   fits" if memory else "")
    )
    for plan in plans:
        sizes = (plan.parameters, plan.gradients, plan.optimizer)
        fits = _fits(plan, memory) if memory else ""
        yield (
            f"{str(plan.spec):<14}{''.join(f'{n / planning.GIB:8.2f}' for n in sizes)}"
            f"{plan.activations / planning.GIB:9.2f}{plan.total() / planning.GIB:9.2f}"
            f"{plan.macs / 1e12:9.2f}   {plan.rematerialized / planning.GIB:7.2f}"
            f"{plan.total(rematerialize=True) / planning.GIB:9.2f}"
            f"{plan.rematerialized_macs / 1e12:9.2f}{fits}"
        )


def _fits(plan, memory):
    if plan.total() <= memory * planning.GIB:
        return "   yes"
    return "   again" if plan.total(rematerialize=True) <= memory * planning.GIB else "   no"
