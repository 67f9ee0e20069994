"""Tables of paths and labels."""

import json

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from image_files import flat, write
from tf_data import once

from pipelines._tensorflow import tf
from pipelines.sources.table import has_splits, table

pytestmark = once


@pytest.fixture
def images(tmp_path):
    for value in range(1, 5):
        write(tmp_path / "images" / f"{value}.png", flat(value))
    return tmp_path


def write_csv(folder, text, name="labels.csv"):
    (folder / name).write_text(text, "utf-8")
    return folder / name


def bytes_of(source):
    return [source.read(tf.constant(i, "int64")).numpy() for i in range(source.count)]


def test_rows_in_order_with_paths_relative_to_the_table(images):
    path = write_csv(
        images,
        f'path,label\nimages/2.png,dog\n{images}/images/1.png,"cat, big"\nimages/3.png,dog\n',
    )
    source = table(path)
    assert source.class_names == ("cat, big", "dog")
    assert source.labels.tolist() == [1, 0, 1] and source.labels.dtype == "int32"
    assert bytes_of(source) == [flat(2), flat(1), flat(3)]
    assert source.origin(1) == f"{images}/images/1.png"


def test_several_classes_a_row(images):
    csv = write_csv(images, "\ufefffile,labels\nimages/1.png,a|c\nimages/2.png,\nimages/3.png,b\n")
    rows = [
        {"file": "images/1.png", "labels": ["c", "a"]},
        {"file": "images/2.png", "labels": []},
        {"file": "images/3.png", "labels": "b"},
    ]
    lines = write_csv(images, "\n".join(map(json.dumps, rows)) + "\n\n", "labels.jsonl")
    for path in (csv, lines):
        source = table(path)
        assert source.multi_label and source.labels.dtype == "float32"
        assert source.class_names == ("a", "b", "c")
        np.testing.assert_array_equal(source.labels, [[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    wider = source.relabel(("b", "x", "c", "a"))
    np.testing.assert_array_equal(wider.labels, [[0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]])


def test_splits_share_the_classes_of_the_whole_table(images):
    path = write_csv(
        images,
        "path,label,split\nimages/1.png,10,train\nimages/2.png,2,val\nimages/3.png,9,training\n",
    )
    train, validation = table(path, "train"), table(path, "validation")
    assert train.class_names == validation.class_names == ("2", "9", "10")  # by number
    assert train.labels.tolist() == [2, 1] and validation.labels.tolist() == [0]
    assert bytes_of(validation) == [flat(2)]


def test_test_rows_are_left_alone_where_others_validate(images):
    text = "path,label,split\nimages/1.png,a,train\nimages/2.png,b,{}\nimages/3.png,b,test\n"
    path = write_csv(images, text.format("val"))
    assert bytes_of(table(path, "validation")) == [flat(2)]
    assert bytes_of(table(path, "train")) == [flat(1)]
    assert table(path).count == 3
    path = write_csv(images, text.format("train"))
    assert bytes_of(table(path, "validation")) == [flat(3)]


def test_numbers_are_whole_and_named_by_class_names(images):
    text = "path,label\nimages/1.png,10.0\nimages/2.png,2.0\nimages/3.png,0.0\n"
    source = table(write_csv(images, text))
    assert source.class_names == ("0", "2", "10") and source.labels.tolist() == [2, 1, 0]
    names = tuple("abcdefghijk")
    named = table(write_csv(images, text), class_names=names)
    assert named.class_names == names and named.labels.tolist() == [10, 2, 0]
    with pytest.raises(ValueError, match="not among the 3 .*: '0', '2', '10'"):
        table(write_csv(images, text), class_names=("a", "b", "c"))
    text = "path,label\nimages/1.png,007\nimages/2.png,7\n"
    assert table(write_csv(images, text)).class_names == ("007", "7")


def test_columns_and_classes_of_other_names(images):
    path = write_csv(images, "where,what\nimages/4.png,b;a\n")
    source = table(path, path_column="where", label_column="what", separator=";")
    np.testing.assert_array_equal(source.labels, [[1, 1]])
    named = table(
        path,
        class_names=("z", "b", "a"),
        path_column="where",
        label_column="what",
        separator=";",
    )
    np.testing.assert_array_equal(named.labels, [[0, 1, 1]])


@pytest.mark.parametrize(
    "text, arguments, message",
    [
        ("path,label\n", {}, "no rows"),
        ("path,kind\na.png,x\n", {}, "column 'label' or .*Received: columns 'path', 'kind'"),
        ("path,label\na.png,x\nb.png,x\n", {}, "only one class in .*: 'x'. Every prediction"),
        ("path,label\na.png,x\n", {"path_column": "file"}, "must have a column 'file'"),
        ("path,label\na.png,x\n,y\n", {}, "Row 2 .* has no 'path'"),
        (
            "path,label\na.png,x\n",
            {"class_names": ("y",)},
            "not among the 1 .*: 'x'. Those are: 'y'",
        ),
        ("path,label\na.png,x\n", {"class_names": ("x", "y", "x")}, "more than one class: 'x'"),
        ("path,label,split\na.png,x,dev\n", {}, "Row 1 .* the split 'dev'. It must be one of"),
        ("path,label,split\na.png,x,val\nb.png,x,\n", {}, "Row 2 .* the split ''"),
        ("path,label\na.png,x\nb.png,\n", {}, "Row 2 .* has no 'label'. Only where"),
        ("path,label\na,b.png,x\n", {}, r"Row 1 .* more values than .* columns: \['x'\]"),
        ("path,label\na.png,x\n", {"split": "validation"}, "no rows of the split 'validation'"),
    ],
)
def test_a_table_that_cannot_be_read(tmp_path, text, arguments, message):
    with pytest.raises(ValueError, match=message):
        table(write_csv(tmp_path, text), **arguments)


def test_the_word_for_a_split_is_not_guessed(images):
    text = "path,label,split\nimages/1.png,a,train\nimages/2.png,b,dev\n"
    with pytest.raises(ValueError, match="Row 2 .* the split 'dev'"):
        has_splits(write_csv(images, text))
    assert not has_splits(write_csv(images, "path,label,split\nimages/1.png,a,\n"))


@pytest.mark.parametrize(
    "line, message", [('{"path": ', "is not JSON: "), ('["a.png", "x"]', "must be an object")]
)
def test_a_line_that_is_no_row_is_named(tmp_path, line, message):
    path = write_csv(tmp_path, f'{{"path": "a.png", "label": "x"}}\n\n{line}\n', "labels.jsonl")
    with pytest.raises(ValueError, match=f"Line 3 of .*labels.jsonl {message}"):
        table(path)


def test_lists_of_one_class_are_several_classes_too(images):
    path = write_csv(
        images,
        '{"path": "images/1.png", "label": ["a"]}\n{"path": "images/2.png", "label": []}\n',
        "labels.jsonl",
    )
    assert table(path).labels.tolist() == [[1], [0]]


def test_no_table(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.csv"):
        table(tmp_path / "none.csv")
