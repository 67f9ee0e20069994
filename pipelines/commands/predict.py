"""Names what images show, with the classes of the model that is asked."""

import json

from pipelines.model_files.open_model import add_classes_argument, add_model_arguments, open_model

EXAMPLE = "keras-vit predict photo.jpg --model ViT_B16 --weights imagenet"


def add_arguments(parser):
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="files, folders or patterns")
    add_model_arguments(parser)
    parser.add_argument("--top", type=int, default=5, help="how many classes (default 5)")
    add_classes_argument(parser)
    parser.add_argument("--batch-size", type=int, default=32, metavar="N")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options):
    from pipelines.evaluation.predict import image_files, predict

    files = image_files(options.images)  # before the model, which may take long to load
    model = open_model(options.model, options.weights)
    results = predict(
        model,
        files,
        top=options.top,
        class_names=options.classes_file,
        batch_size=options.batch_size,
    )
    if options.json:
        print(json.dumps([_record(path, best) for path, best in results], indent=1))
        return
    for path, best in results:
        print(path)
        for identifier, name, probability in best:
            wordnet = f"  {identifier}" if isinstance(identifier, str) else ""
            print(f"  {probability:7.2%}  {name}{wordnet}")


def _record(path, best):
    keys = ("class", "name", "probability")
    predictions = [dict(zip(keys, entry, strict=True)) for entry in best]
    return {"image": str(path), "predictions": predictions}
