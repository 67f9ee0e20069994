"""Few-shot accuracy of frozen features, by the paper's closed-form least squares.

For each number of shots: the mean and the standard deviation over the seeds.
"""

import json

from pipelines.distribution.command import add_distribute_argument, distributed
from pipelines.model_files.open_model import add_model_arguments, open_model

EXAMPLE = "keras-vit fewshot --model runs/fashion_mnist/final.keras --data fashion_mnist"


def add_arguments(parser):
    add_model_arguments(parser)
    parser.add_argument("--data", required=True, metavar="SOURCE", help="images to draw from")
    parser.add_argument("--test", metavar="SOURCE", help="default: the validation part of --data")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5, 10, 25], metavar="N")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="draws (3)")
    parser.add_argument("--float32", action="store_true", help="solve as the paper's code does")
    parser.add_argument("--cache", metavar="DIR", help="folder that keeps the features")
    parser.add_argument("--batch-size", type=int, default=64, metavar="N")
    add_distribute_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options):
    from pipelines.evaluation.fewshot import table
    from pipelines.evaluation.fewshot_sources import few_shot

    with distributed(options.distribute) as engine:
        accuracies = few_shot(
            open_model(options.model, options.weights),
            options.data,
            options.test,
            shots=options.shots,
            seeds=range(options.seeds),
            dtype="float32" if options.float32 else "float64",
            cache=options.cache,
            batch_size=options.batch_size,
            distribute=engine,
        )
        if engine.is_chief:
            print(json.dumps(accuracies) if options.json else table(accuracies))
        engine.wait()  # a process that has ended would be missed
