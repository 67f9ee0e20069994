"""Lists the named models with their published weights; with names, in detail.

Multiply-adds are of one image of 224x224. Top-1 is on ImageNet's validation images, as published
by the source that the details name, with its own implementation and crops.
"""

import json

from pipelines.model_files.model_table import model_rows

EXAMPLE = "keras-vit models ViT_B16"


def add_arguments(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", help="constructors; all if none")
    parser.add_argument("--json", action="store_true", help="print JSON, with every detail")


def run(options):
    rows = model_rows(options.names)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(_title(row))
        for weights in row["weights"]:
            print(_line(weights))
            if options.names:
                print(_details(weights))


def _title(row):
    millions, billions = row["parameters"] / 1e6, row["macs"] / 1e9
    none = "" if row["weights"] else "  no published weights"
    return f"{row['model']:<13}{millions:8.1f} M parameters {billions:7.1f} G multiply-adds{none}"


def _line(weights):
    height, width = weights["image_size"]
    top1 = "" if weights["top1"] is None else f"top-1 {weights['top1']:.2f} %"
    aliases = f"= {', '.join(weights['aliases'])}" if weights["aliases"] else ""
    return f"  {weights['name']:<40} {height}x{width}  {top1:<13}  {aliases}".rstrip()


def _details(weights):
    head = "no head" if weights["classes"] is None else f"{weights['classes']:,} classes"
    if weights["classes"] is not None and not weights["trained_head"]:
        head += ", the head all zeros"
    lines = [
        f"{weights['url']}",
        f"trained on {weights['training_data']}; {head}; constants of {weights['origin']}; "
        f"{weights['licence']}",
        f"listed by {weights['source']}",
    ]
    if weights["top1_source"]:
        lines.append(f"accuracy from {weights['top1_source']}")
    return "\n".join(f"      {line}" for line in lines)
