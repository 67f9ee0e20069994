"""What users can switch on, measured: speed, memory, and what it does to the accuracy.

    python benchmarks/switches.py --backends tensorflow jax torch --out benchmarks/results

Speed and memory are those of a large enough model, in processes that take turns; accuracy is that
of a small one trained on the 10,000 images of Fashion-MNIST that come with the package, from the
same seed, on all 10,000 test images.
"""

import argparse
import dataclasses
import sys

import compare
import macs
import measure
import peers

PLAIN = "keras_vit: plain"
# Label to what differs from the plain job.
TRAINING = {
    "keras_vit: mixed_bfloat16": {"dtype": "mixed_bfloat16"},
    "keras_vit: rematerialize": {"switch": "rematerialize"},
    "keras_vit: steps_per_execution": {"switch": "steps_per_execution"},
    "keras_vit: jit_compile": {"switch": "jit_compile"},
    "keras_vit: patch_dropout": {"switch": "patch_dropout"},
}
FORWARD = {
    "keras_vit: mixed_bfloat16": {"dtype": "mixed_bfloat16"},
    "keras_vit: int8": {"switch": "int8"},
    "keras_vit: jit_compile": {"switch": "jit_compile"},
}
TASKS = {"train": (TRAINING, macs.training), "forward": (FORWARD, macs.forward)}
PARTS = ["speed", "accuracy"]
HEADER = ["backend", "task", "switch", "images/s", "times plain", "peak MiB", "of plain"]
ACCURACY_HEADER = ["backend", "trained with", "accuracy", "and then", "accuracy, then"]
# What a model is trained with, and what is switched on afterwards.
RUNS = {
    "plain": ("int8", "mixed_bfloat16"),
    "mixed_bfloat16": (),
    "rematerialize": (),
    "steps_per_execution": (),
    "patch_dropout": (),
}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    compare.add_arguments(parser, ["S/16"], batch=16, rounds=3, seconds=0.0)
    parser.add_argument("--steps", type=int, default=8, metavar="N", help="of training, of a turn")
    parser.add_argument("--epochs", type=int, default=3, metavar="N", help="for the accuracy")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        return measure.serve(accuracy)
    results = {"settings": vars(options), **measure.surroundings(), "groups": [], "accuracy": {}}
    for backend in options.backends:
        for model in options.models if "speed" in options.parts else ():
            job = peers.Job(model, options.image_size, options.batch)
            results["groups"] += [speeds(task, job, backend, options) for task in TASKS]
        if "accuracy" in options.parts:
            results["accuracy"][backend] = accuracies(backend, options.epochs)
    text = report(results)
    print(text)
    if options.out:
        measure.write(options.out, "switches", results, text)


def speeds(task, job, backend, options):
    changes, count = TASKS[task]
    contenders = {PLAIN: (job, backend)}
    for label, change in changes.items():
        contenders[label] = (dataclasses.replace(job, **change), backend)
    request = {"task": task, "steps": options.steps}
    return {"task": task, **compare.group(contenders, options, request, count(job))}


def accuracies(backend, epochs):
    """`{run: {"trained": accuracy, switch: accuracy}}`, or the failure of a run."""
    found = {}
    for name, then in RUNS.items():
        environment = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        worker = measure.Worker([sys.executable, __file__, "--serve"], environment)
        answer = worker.ask(name=name, then=then, epochs=epochs)
        found[name] = {"failure": worker.failure} if answer is None else answer["accuracy"]
        worker.close()
        print(f"{backend}, trained with {name}: {found[name]}", flush=True)
    return found


def accuracy(name, then, epochs):
    """Trains the small model; what it and its switched forms get right of the test images."""
    import keras

    import keras_vit
    from pipelines.sources.fashion_mnist import fashion_mnist

    keras.utils.set_random_seed(0)
    if name == "mixed_bfloat16":
        keras.config.set_dtype_policy(name)
    images, labels = fashion_mnist("train")
    model = small_model(0.5 if name == "patch_dropout" else 0.0)
    if name == "rematerialize":
        keras_vit.rematerialize(model)
    steps = epochs * (len(images) // 50)
    rate = keras_vit.optimizers.WarmupCosine(2e-3, total_steps=steps, warmup_steps=steps // 10)
    model.compile(
        keras_vit.optimizers.AdamW(rate, weight_decay=0.05, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=8 if name == "steps_per_execution" else 1,
    )
    model.fit(scaled(images), labels, batch_size=50, epochs=epochs, verbose=0)
    found = {"trained": right(model)}
    for switch in then:
        found[switch] = right(switched(model, switch))
    return {"accuracy": found}


def small_model(patch_dropout_rate=0.0):
    import keras_vit

    return keras_vit.VisionTransformer(
        (28, 28),
        4,
        4,
        3,
        96,
        192,
        classes=10,
        classifier_activation=None,
        channels=1,
        patch_dropout_rate=patch_dropout_rate,
    )


def switched(model, switch):
    """The trained model in another form; `model` stays as it is."""
    import keras

    if switch == "mixed_bfloat16":
        with_policy = keras.config.dtype_policy()
        keras.config.set_dtype_policy(switch)
        other = small_model()
        keras.config.set_dtype_policy(with_policy)
    else:
        other = small_model()
    other.set_weights(model.get_weights())
    if switch == "int8":
        from peers import ours

        ours.quantize(other)
    return other


def right(model):
    """The share of the test images that a model names."""
    from pipelines.sources.fashion_mnist import fashion_mnist

    images, labels = fashion_mnist("test")
    logits = model.predict(scaled(images), batch_size=200, verbose=0)
    return float((logits.argmax(-1) == labels).mean())


def scaled(images):
    return images.astype("float32") / 127.5 - 1.0


def report(results):
    rows = [row for found in results["groups"] for row in speed_rows(found)]
    lines = [measure.table(HEADER, rows)] if rows else []
    accuracy_rows = []
    for backend, runs in results["accuracy"].items():
        for name, found in runs.items():
            if "failure" in found:
                accuracy_rows.append([backend, name, f"failed: {found['failure']}", "", ""])
                continue
            trained = f"{found['trained']:.2%}"
            accuracy_rows.append([backend, name, trained, "", ""])
            for switch, value in found.items():
                if switch != "trained":
                    accuracy_rows.append([backend, name, trained, switch, f"{value:.2%}"])
    if accuracy_rows:
        lines += ["", measure.table(ACCURACY_HEADER, accuracy_rows)]
    return "\n".join([*lines, "", measure.sentence(results)])


def speed_rows(found):
    plain = found["peers"][PLAIN]
    for label, peer in found["peers"].items():
        head = [found["backend"], found["task"], label.split(": ")[1]]
        if "failure" in peer:
            yield [*head, f"left out: {peer['failure']}", "", "", ""]
            continue
        speed = found["batch"] / measure.median(peer["seconds"])
        ratio = memory = ""
        if peer is not plain and "failure" not in plain:
            ratio = measure.ratio(plain["seconds"], peer["seconds"])
            memory = f"{peer['peak_mib'] / plain['peak_mib']:.2f}"
        yield [*head, f"{speed:.2f}", ratio, f"{peer['peak_mib']:.0f}", memory]


if __name__ == "__main__":
    main()
