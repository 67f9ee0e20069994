"""Schedules point by point, against values worked by hand and against NumPy in float64."""

import json

import keras
import numpy as np
import pytest

from keras_vit.optimizers import AdamW, WarmupCosine, WarmupLinear, WarmupRsqrt, WarmupSteps


def value(schedule, step):
    return float(keras.ops.convert_to_numpy(schedule(keras.ops.convert_to_tensor(step, "int32"))))


# 10 steps of warm-up, 110 in all: the decay takes 100.
POINTS = [
    (WarmupLinear(0.8, 110, 10), {0: 0, 5: 0.4, 10: 0.8, 35: 0.6, 60: 0.4, 110: 0, 200: 0}),
    (
        WarmupLinear(0.8, 110, 10, final_learning_rate=0.2),
        {0: 0, 5: 0.4, 10: 0.8, 60: 0.5, 110: 0.2, 200: 0.2},
    ),
    (
        WarmupCosine(0.8, 110, 10),
        {0: 0, 1: 0.08, 10: 0.8, 35: 0.4 * (1 + 0.5**0.5), 60: 0.4, 110: 0, 111: 0},
    ),
    (WarmupCosine(0.8, 100, 0, final_learning_rate=0.4), {0: 0.8, 50: 0.6, 100: 0.4}),
    (WarmupRsqrt(0.8, 1000, 10, timescale=30), {0: 0, 5: 0.4, 10: 0.8, 40: 0.8 / 2**0.5, 100: 0.4}),
    (
        WarmupRsqrt(0.8, 120, 10, timescale=30, cooldown_steps=40),
        {80: 0.8 / (1 + 70 / 30) ** 0.5, 100: 0.2, 120: 0, 150: 0},
    ),
    (
        WarmupSteps(0.8, 100, 10, boundaries=(30, 60, 90)),
        {0: 0, 5: 0.4, 10: 0.8, 29: 0.8, 30: 0.08, 60: 0.008, 89: 0.008, 90: 0.0008, 100: 0.0008},
    ),
    (WarmupSteps(0.8, 9, boundaries=[4], factor=0.5), {0: 0.8, 3: 0.8, 4: 0.4, 9: 0.4}),
]


@pytest.mark.parametrize(("schedule", "points"), POINTS)
def test_by_hand(schedule, points):
    for step, wanted in points.items():
        np.testing.assert_allclose(value(schedule, step), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("schedule", "points"), POINTS)
def test_the_config_makes_the_same_schedule(schedule, points):
    config = json.loads(json.dumps(keras.optimizers.schedules.serialize(schedule)))
    again = keras.optimizers.schedules.deserialize(config)
    assert type(again) is type(schedule)
    assert again.get_config() == schedule.get_config()
    for step, wanted in points.items():
        np.testing.assert_allclose(value(again, step), wanted, rtol=1e-6, atol=1e-9)


def test_the_last_steps_of_a_long_run_differ():
    # float32 has no 30,000,001, and 1 + cos loses all digits there.
    total = 30_000_003
    for step in (total - 1, total - 2, total - 1000):
        share = (total - step) / (total - 3)
        wanted = np.sin(0.5 * np.pi * share) ** 2
        np.testing.assert_allclose(value(WarmupCosine(1.0, total, 3), step), wanted, rtol=1e-6)
        np.testing.assert_allclose(value(WarmupLinear(1.0, total, 3), step), share, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: WarmupCosine(0.1, 10, 10), "total_steps=10, warmup_steps=10"),
        (lambda: WarmupCosine(0.1, 0), "total_steps=0"),
        (lambda: WarmupCosine(-0.1, 10), "learning_rate=-0.1"),
        (lambda: WarmupLinear(0.1, 10, 2.5), "warmup_steps=2.5"),
        (lambda: WarmupLinear(0.1, 10, final_learning_rate=-1), "final_learning_rate=-1"),
        (lambda: WarmupRsqrt(0.1, 10, 5, cooldown_steps=6), "cooldown_steps=6"),
        (lambda: WarmupSteps(0.1, 10, boundaries=(5, 5)), r"boundaries=\(5, 5\)"),
        (lambda: WarmupSteps(0.1, 10, boundaries=(11,)), "boundaries=.*total_steps=10"),
    ],
)
def test_what_describes_no_schedule_is_refused(make, said):
    with pytest.raises(ValueError, match=f"Received: .*{said}"):
        make()


def test_read_back_from_an_optimizer_that_has_trained():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    schedule = WarmupLinear(0.8, total_steps=20, warmup_steps=4)
    model.compile(AdamW(schedule, weight_decay=0.1), "mse", run_eagerly=True)
    x = np.ones((6, 3), "float32")
    model.fit(x, np.zeros((6, 2)), batch_size=1, epochs=1, verbose=0)
    # 6 updates are done; the next has step 6, of which 2 of the 16 after the warm-up.
    np.testing.assert_allclose(float(model.optimizer.learning_rate), 0.8 * 14 / 16, rtol=1e-6)
    assert int(model.optimizer.iterations) == 6
