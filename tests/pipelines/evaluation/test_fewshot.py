"""The few-shot solver against the normal equations, and its draws against what they must be."""

import keras
import numpy as np
import pytest

from pipelines.evaluation.fewshot import choose, few_shot_accuracy, solve, table

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="pure NumPy: the same on every backend"
)


def clusters(per_class, width, classes=3, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, width)) * 2 + 5
    labels = np.repeat(np.arange(classes), per_class)
    return centres[labels] + spread * rng.normal(size=(len(labels), width)), labels


def by_normal_equations(features, labels, classes, queries):
    """Scores from (Z'Z + 1024 I) W = Z'Y, with the last column of Z 100."""
    mean, deviation = features.mean(0), features.std(0) + 1e-5
    z = np.column_stack([(features - mean) / deviation, 100 * np.ones(len(features))])
    y = 2 * np.eye(classes)[labels] - 1
    weights = np.linalg.solve(z.T @ z + 1024 * np.eye(z.shape[1]), z.T @ y)
    return np.column_stack([(queries - mean) / deviation, 100 * np.ones(len(queries))]) @ weights


# n = 30 against 4 + 1, 30 against 29 + 1 (equal), 30 against 40 + 1.
@pytest.mark.parametrize("width", [4, 29, 30, 40])
def test_both_forms_solve_the_normal_equations(width):
    features, labels = clusters(10, width)
    queries, _ = clusters(7, width, seed=1)
    wanted = by_normal_equations(features, labels, 3, queries)
    solution = solve(features, labels, 3)
    assert solution.weights.shape == (width + 1, 3)
    np.testing.assert_allclose(solution.scores(queries), wanted, rtol=1e-6, atol=1e-6)
    single = solve(features, labels, 3, dtype="float32")
    assert single.weights.dtype == np.float32
    np.testing.assert_allclose(single.scores(queries), wanted, rtol=1e-2, atol=1e-3)


def test_one_feature_by_hand():
    # Features 1 and 3 whiten to -1 and 1, nearly; the products are diag(2, 20000).
    solution = solve([[1.0], [3.0]], [0, 1], 2)
    slope = 2 / (2 + 1024) / (1 + 1e-5)
    np.testing.assert_allclose(solution.weights[0], [-slope, slope], rtol=1e-4)
    np.testing.assert_allclose(solution.weights[1], [0, 0], atol=1e-9)


def test_a_constant_feature_is_no_division_by_zero():
    features, labels = clusters(4, 5)
    features[:, 2] = 7.0
    assert np.isfinite(solve(features, labels, 3).scores(features)).all()


def test_draws_are_of_each_class_and_nested():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(4), 30))
    for seed in (0, 1):
        five, ten = (choose(labels, shots, seed, 4) for shots in (5, 10))
        np.testing.assert_array_equal(np.bincount(labels[ten]), [10] * 4)
        assert len(set(ten)) == 40
        np.testing.assert_array_equal(ten.reshape(4, 10)[:, :5], five.reshape(4, 5))
    assert set(choose(labels, 5, 0, 4)) != set(choose(labels, 5, 1, 4))


def test_draws_are_those_of_the_papers_code():
    labels = np.array([1, 0, 1, 0, 1, 0])
    rng = np.random.default_rng(2)
    wanted = [rng.permutation([1, 3, 5])[:2], rng.permutation([0, 2, 4])[:2]]
    np.testing.assert_array_equal(choose(labels, 2, 2, 2), np.concatenate(wanted))


def test_accuracy_of_each_seed_on_the_whole_test_set():
    train, labels = clusters(30, 6, spread=4.0)
    test, test_labels = clusters(50, 6, seed=5, spread=4.0)
    result = few_shot_accuracy(train, labels, test, test_labels, shots=(1, 25), seeds=(0, 7))
    assert list(result) == [1, 25]
    for shots, accuracies in result.items():
        for seed, accuracy in zip((0, 7), accuracies, strict=True):
            chosen = choose(labels, shots, seed, 3)
            scores = by_normal_equations(train[chosen], labels[chosen], 3, test)
            assert accuracy == np.mean(scores.argmax(1) == test_labels)
    assert 0.4 < np.mean(result[1]) < np.mean(result[25]) < 1


def test_classes_without_enough_examples():
    features, labels = clusters(3, 4)
    with pytest.warns(UserWarning, match=r"3 classes have fewer than 5 .*\[0, 1, 2\]"):
        assert len(choose(labels, 5, 0, 3)) == 9
    with pytest.raises(ValueError, match=r"no example of the classes \[3\] \(of 4\)"):
        choose(labels, 1, 0, 4)


@pytest.mark.parametrize(
    ("features", "labels", "said"),
    [
        (np.zeros((4, 2)), np.zeros(3, int), r"\(4, 2\), labels of shape \(3,\)"),
        (np.zeros(4), np.zeros(4, int), r"features of shape \(4,\)"),
        (np.zeros((2, 2)), np.array([0, 3]), "from 0 to 2"),
        (np.zeros((2, 2)), np.array([0.0, 1.0]), "labels of float64"),
        (np.full((2, 2), np.nan), np.array([0, 1]), "4 that are not, of 4"),
    ],
)
def test_what_does_not_fit_is_refused(features, labels, said):
    with pytest.raises(ValueError, match=said):
        solve(features, labels, 3)


@pytest.mark.parametrize(
    ("shots", "seeds", "said"),
    [
        ((0,), (0,), "`shots` must be an integer of at least 1. Received: shots=0"),
        ((-1,), (0,), "shots=-1"),
        ((), (0,), r"at least one of each. Received: shots=\(\)"),
        ((1,), range(0), r"seeds=range\(0, 0\)"),
    ],
)
def test_no_shots_and_no_seeds_are_refused(shots, seeds, said):
    features, labels = clusters(3, 4)
    with pytest.raises(ValueError, match=said):
        few_shot_accuracy(features, labels, features, labels, shots=shots, seeds=seeds)


def test_the_table_has_mean_and_deviation():
    lines = table({5: (0.5, 0.7), 25: (1.0, 1.0)}).splitlines()
    assert lines[1].split() == ["5", "60.00", "10.00"]
    assert lines[2].split() == ["25", "100.00", "0.00"]
