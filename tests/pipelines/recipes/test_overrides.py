"""Fields of a recipe from text."""

import keras
import pytest

from pipelines.recipes import NAMES, find, resolve
from pipelines.recipes.overrides import field_names, override, split_arguments
from pipelines.sizes import parse_size

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="plain Python: the same on every backend"
)


def test_values_are_read_as_the_fields_types():
    recipe = resolve(
        "finetune_pets",
        {
            "optimizer.learning_rate": "3e-4",
            "optimizer.clip_norm": "none",
            "optimizer.boundaries": "0.5, 0.75",
            "model.image_size": "384,512",
            "model.rematerialize": "true",
            "model.arguments.pooling": "avg",
            "model.arguments.num_registers": "4",
            "data.source": "photos/",
            "batch_size": "64",
            "class_weights": "False",
        },
    )
    assert recipe.optimizer.learning_rate == 3e-4
    assert recipe.optimizer.clip_norm is None
    assert recipe.optimizer.boundaries == (0.5, 0.75)
    assert recipe.model.image_size == (384, 512)
    assert recipe.model.rematerialize is True
    assert recipe.model.arguments == {"pooling": "avg", "num_registers": 4}
    assert (recipe.data.source, recipe.batch_size, recipe.class_weights) == ("photos/", 64, False)
    assert recipe.steps == 500  # what is not named stays


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("256", (256, 256)), ("384x512", (384, 512)), ("(384, 512)", (384, 512)), ("8X16", (8, 16))],
)
def test_a_size_is_written_as_on_every_command_line(text, wanted):
    assert resolve("folder", {"model.image_size": text}).model.image_size == wanted
    assert parse_size(text) == wanted


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("optimizer.learning_rate", "fast", "`optimizer.learning_rate` must be a number"),
        ("batch_size", "6.5", "`batch_size` must be an integer. Received: batch_size=6.5"),
        ("patience", "soon", "an integer or none"),
        ("model.rematerialize", "1", "true or false"),
        ("model.image_size", "1,2,3", "one side, as 224"),
        ("optimizer.boundaries", "soon", "numbers with commas"),
        ("model.arguments", "avg", "a dict"),
        ("optimizer.name", "adagrad", "'adamw', 'sgd'.*'adagrad'"),
        ("optimizer.schedule", "flat", "'cosine', 'linear'"),
        ("optimizer.learning_rate", "-1", "learning_rate=-1"),
        ("data.fraction", "0", "data.fraction=0"),
        ("precision", "float8", "'float32', 'bfloat16'"),
    ],
)
def test_a_text_of_another_type_is_refused(name, text, said):
    with pytest.raises(ValueError, match=said):
        resolve("folder", {name: text})


def test_an_unknown_field_is_an_error_that_lists_the_right_ones():
    with pytest.raises(ValueError, match="no field 'optimizer.lr'.*optimizer.learning_rate"):
        resolve("folder", {"optimizer.lr": "1"})
    with pytest.raises(ValueError, match="Did you mean batch_size"):
        resolve("folder", {"batchsize": "1"})
    with pytest.raises(ValueError, match="'optimizer'"):
        resolve("folder", {"optimizer": "adamw"})
    with pytest.raises(ValueError, match="'seed.x'"):
        resolve("folder", {"seed.x": "1"})


def test_steps_take_the_place_of_epochs():
    recipe = resolve("folder", {"steps": "7"})
    assert (recipe.epochs, recipe.steps) == (None, 7)
    recipe = resolve("bit_hyperrule", {"epochs": "3"})
    assert (recipe.epochs, recipe.rule) == (3, None)
    with pytest.raises(ValueError, match="epochs=2, steps=7"):
        resolve("folder", {"steps": "7", "epochs": "2"})


def test_another_model_has_its_own_row_of_the_table():
    # Table 3: 4e-4 and 14 epochs for L/16, 8e-4 and 7 for B/16.
    large = resolve("pretrain_jft", {"model.name": "ViT_L16"})
    assert (large.optimizer.learning_rate, large.epochs) == (4e-4, 14)
    assert large.model.arguments == {"representation_size": 1024}
    base = resolve("pretrain_jft")
    assert (base.optimizer.learning_rate, base.epochs) == (8e-4, 7)
    with pytest.raises(ValueError, match="'ViT_B32'.*'ViT_Ti16'"):
        resolve("pretrain_jft", {"model.name": "ViT_Ti16"})


def test_unknown_recipes_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no recipe 'finetune_pet'.*'finetune_pets'"):
        find("finetune_pet")


def test_arguments_of_the_command_line():
    assert split_arguments(["--a.b=1", "--batch-size=2", "--c=x=y"]) == {
        "a.b": "1",
        "batch_size": "2",
        "c": "x=y",
    }
    for wrong in ("--a", "a=1", "--=1"):
        with pytest.raises(ValueError, match="--name=value"):
            split_arguments([wrong])


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_is_documented_and_can_be_written(name):
    recipe = resolve(name)
    assert len(find(name).__doc__) > 60
    names = field_names(recipe)
    assert "optimizer.learning_rate" in names and "model.name" in names
    assert override(recipe, {"seed": "5"}).seed == 5


def test_the_papers_tables():
    # Table 3 and table 4 of arXiv 2010.11929, and the AugReg and BiT rules.
    imagenet = resolve("pretrain_imagenet")
    assert (imagenet.epochs, imagenet.batch_size) == (300, 4096)
    o = imagenet.optimizer
    assert (o.learning_rate, o.schedule, o.weight_decay) == (3e-3, "cosine", 0.3)
    assert (o.warmup, o.clip_norm, imagenet.model.dropout_rate) == (10_000, 1.0, 0.1)
    i21k = resolve("pretrain_imagenet21k")
    o = i21k.optimizer
    assert (o.learning_rate, o.schedule, o.weight_decay) == (1e-3, "linear", 0.03)
    assert (o.final_learning_rate, i21k.head_bias, i21k.epochs) == (1e-5, -10.0, 90)
    assert abs(imagenet.head_bias + 6.9) < 0.01
    for data, steps, grid in (
        ("imagenet", 20_000, (0.003, 0.01, 0.03, 0.06)),
        ("cifar100", 10_000, (0.001, 0.003, 0.01, 0.03)),
        ("cifar10", 10_000, (0.001, 0.003, 0.01, 0.03)),
        ("pets", 500, (0.001, 0.003, 0.01, 0.03)),
        ("flowers", 500, (0.001, 0.003, 0.01, 0.03)),
        ("vtab", 2_500, (0.01,)),
    ):
        recipe = resolve(f"finetune_{data}")
        assert (recipe.steps, recipe.batch_size) == (steps, 512)
        assert recipe.grid == {"optimizer.learning_rate": grid}
        o = recipe.optimizer
        assert (o.name, o.momentum, o.weight_decay, o.clip_norm) == ("sgd", 0.9, 0.0, 1.0)
        assert (o.schedule, recipe.model.image_size) == ("cosine", (384, 384))
    large = resolve("finetune_imagenet_512", {"model.name": "ViT_H14"})
    assert (large.model.image_size, large.optimizer.averaging) == ((518, 518), 0.9999)


@pytest.mark.parametrize(
    ("count", "steps", "warmup", "drops"),
    [
        (19_999, 500, 100, (200, 300, 400)),
        (20_000, 10_000, 500, (3_000, 6_000, 9_000)),
        (500_000, 20_000, 500, (6_000, 12_000, 18_000)),
    ],
)
def test_bits_rule(count, steps, warmup, drops):
    from pipelines.recipes.bit_hyperrule import apply_rule
    from pipelines.runs.building import make_schedule

    recipe = apply_rule(resolve("bit_hyperrule"), count)
    assert recipe.steps == steps
    schedule = make_schedule(recipe.optimizer, steps)
    assert schedule.boundaries == drops
    assert (schedule.warmup_steps, schedule.total_steps) == (warmup, steps)
