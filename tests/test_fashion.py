"""Fashion-MNIST from small files of its format, and the features made of images."""

import gzip
import hashlib

import numpy as np
import pytest

import ebm.datasets
from ebm.datasets import fashion, features
from ebm.errors import CodingError, FileFormatError, ModelError, ShapeError

RNG = np.random.default_rng(5)
IMAGES = RNG.integers(0, 256, (3, 28, 28), dtype=np.uint8)


def idx(array):
    """The idx format: two zeros, the type, the axes, big-endian lengths, values."""
    header = bytes([0, 0, 8, array.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A folder with files of a few images, half of them compressed, known by their sums."""
    monkeypatch.delenv("EBM_DATA", raising=False)
    monkeypatch.setattr(fashion.sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    arrays = {
        "train-images-idx3-ubyte": IMAGES,
        "train-labels-idx1-ubyte": np.array([3, 0, 9], dtype=np.uint8),
        "t10k-images-idx3-ubyte": IMAGES[::-1],
        "t10k-labels-idx1-ubyte": np.array([1, 2, 8], dtype=np.uint8),
    }
    digests = {name: hashlib.sha256(idx(x)).hexdigest() for name, x in arrays.items()}
    monkeypatch.setattr(fashion, "DIGESTS", digests)
    folder = tmp_path / "data" / "fashion-mnist"
    folder.mkdir(parents=True)
    for k, (name, array) in enumerate(arrays.items()):
        if k % 2:
            (folder / name).write_bytes(idx(array))
        else:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
    return folder


def check(data):
    """All four arrays are those written."""
    np.testing.assert_array_equal(data.images, IMAGES)
    np.testing.assert_array_equal(data.labels, [3, 0, 9])
    np.testing.assert_array_equal(data.test_images, IMAGES[::-1])
    np.testing.assert_array_equal(data.test_labels, [1, 2, 8])
    assert data.images.dtype == data.labels.dtype == np.uint8
    for array in (data.images, data.labels, data.test_images, data.test_labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_files_are_read_from_a_folder_that_is_named(small):
    check(ebm.datasets.fashion_mnist(small))
    check(ebm.datasets.fashion_mnist(str(small)))


@pytest.mark.parametrize("place", ["data", "data/fashion-mnist"])
def test_the_environment_variable_names_a_folder(small, monkeypatch, tmp_path, place):
    monkeypatch.setenv("EBM_DATA", str(tmp_path / place))
    check(ebm.datasets.fashion_mnist())


@pytest.mark.parametrize("place", ["cache/ebm", "prefix/share/datasets"])
def test_files_are_found_in_the_usual_folders(small, tmp_path, place):
    (tmp_path / place).mkdir(parents=True)
    small.rename(tmp_path / place / "fashion-mnist")
    check(ebm.datasets.fashion_mnist())


def test_absent_files_are_explained(small, monkeypatch):
    """Also where one of the four is missing: no mixture of folders."""
    (small / "t10k-labels-idx1-ubyte").unlink()
    monkeypatch.setenv("EBM_DATA", str(small))
    monkeypatch.setattr(fashion, "_folders", lambda real=fashion._folders: list(real())[:3])
    with pytest.raises(FileNotFoundError, match=r"fashion-mnist.*dataset-fashion-mnist.*EBM_DATA"):
        ebm.datasets.fashion_mnist()


def test_a_changed_file_is_refused(small):
    path = small / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\x05")
    with pytest.raises(FileFormatError, match=r"train-labels.*SHA-256"):
        ebm.datasets.fashion_mnist(small)


@pytest.mark.parametrize("damage", [lambda x: x[: len(x) // 2], lambda x: b"GIF8" + x[4:]])
def test_a_damaged_archive_is_refused(small, damage):
    path = small / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileFormatError, match=r"no complete gzip file"):
        ebm.datasets.fashion_mnist(small)


def test_the_data_are_those_published():
    """Counts and pixel statistics, where the data are on this machine."""
    try:
        data = ebm.datasets.fashion_mnist()
    except FileNotFoundError:
        pytest.skip("Fashion-MNIST is not on this machine")
    assert data.images.shape == (60000, 28, 28)
    assert data.test_images.shape == (10000, 28, 28)
    assert np.bincount(data.labels).tolist() == [6000] * 10
    assert np.bincount(data.test_labels).tolist() == [1000] * 10
    counts = np.bincount(data.images.ravel(), minlength=256)
    x = np.arange(256) / 255
    mean = counts @ x / counts.sum()
    assert round(mean, 4) == fashion.PIXEL_MEAN
    assert round((counts @ (x - mean) ** 2 / counts.sum()) ** 0.5, 4) == fashion.PIXEL_DEVIATION


def test_padding_adds_a_margin_of_zeros():
    rows = features(IMAGES, dtype=np.float64).reshape(3, 32, 32)
    np.testing.assert_array_equal(rows[:, 2:30, 2:30], IMAGES / 255)
    assert rows.sum() == pytest.approx((IMAGES / 255).sum())
    scaled = features(IMAGES, "pad", 784, scaling="standardized", dtype=np.float64)
    np.testing.assert_allclose(scaled[1], (IMAGES[1].ravel() / 255 - 0.286) / 0.353, rtol=1e-12)


@pytest.mark.parametrize(("side", "padded"), [(14, 28), (7, 28), (1, 28), (16, 32), (8, 32)])
def test_pooling_averages_tiles(side, padded):
    """By loops, of the image itself or with its margin."""
    margin = (padded - 28) // 2
    image = np.pad(IMAGES[1] / 255, margin)
    tile = padded // side
    wanted = [
        image[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile].mean()
        for i in range(side)
        for j in range(side)
    ]
    rows = features(IMAGES, "pool", side**2, dtype=np.float64)
    np.testing.assert_allclose(rows[1], wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", ["project", "random"])
def test_random_features_come_from_the_seed(kind):
    """The same for the same image and seed, whatever the other images."""
    rows = features(IMAGES, kind, 40, rng=3, dtype=np.float64)
    assert rows.shape == (3, 40)
    np.testing.assert_allclose(features(IMAGES[1:], kind, 40, rng=3, dtype=np.float64), rows[1:])
    assert not np.allclose(features(IMAGES, kind, 40, rng=4), rows)
    assert features(IMAGES, kind, 40, rng=3).dtype == np.float32


def test_a_projection_keeps_lengths_on_average():
    """E[z·z]/E is the mean square of the pixels, 1/n of |x|²; a projection is linear."""
    rows = features(IMAGES[:1], "project", 20_000, rng=1, dtype=np.float64)
    square = (IMAGES[0] / 255) ** 2
    assert (rows**2).mean() == pytest.approx(square.mean(), rel=6 * (2 / 20_000) ** 0.5)
    half = features(IMAGES[:1] // 2 * 2, "project", 5, rng=1, dtype=np.float64)
    np.testing.assert_allclose(
        features(IMAGES[:1] // 2, "project", 5, rng=1, dtype=np.float64), half / 2, rtol=1e-12
    )


def test_random_features_are_an_untrained_layer():
    torch = pytest.importorskip("torch")
    rows = features(IMAGES, "random", 5, scaling="standardized", rng=2, dtype=np.float64)
    source = np.random.default_rng(2)
    matrix, shift = source.uniform(-1 / 28, 1 / 28, (784, 5)), source.uniform(-1 / 28, 1 / 28, 5)
    a = (IMAGES.reshape(3, -1) / 255 - 0.286) / 0.353 @ matrix + shift
    wanted = torch.nn.functional.gelu(torch.from_numpy(a)).numpy()
    np.testing.assert_allclose(rows, wanted, rtol=1e-10)


@pytest.mark.parametrize("kind", ["pad", "pool", "project", "random"])
def test_any_number_of_images_in_any_floats(kind):
    """None of them, too; the result has the dtype that was asked for."""
    for dtype in (np.float16, np.float32, np.float64):
        for images in (IMAGES, IMAGES[:0]):
            rows = features(images, kind, 1024, unit_norm=True, rng=1, dtype=dtype)
            assert rows.shape == (len(images), 1024)
            assert rows.dtype == dtype


def test_unit_norm():
    blank = np.zeros((1, 28, 28), dtype=np.uint8)
    rows = features(np.concatenate([IMAGES, blank]), unit_norm=True)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 0], rtol=1e-6)
    assert rows.dtype == np.float32


@pytest.mark.parametrize(
    ("images", "settings", "error", "match"),
    [
        (IMAGES / 255, {}, CodingError, "images must be uint8, 0 … 255, got float64"),
        (IMAGES[0], {}, ShapeError, r"images must have shape \(N, s, s\)"),
        (IMAGES, {"size": 900.0}, ShapeError, "size must be a positive integer"),
        (IMAGES, {"size": 1000}, ShapeError, "size must be the square of 28 or more"),
        (IMAGES, {"size": 400}, ShapeError, "size must be the square of 28 or more"),
        (IMAGES, {"kind": "pool", "size": 25}, ShapeError, "side divides 28, or 32 with a margin"),
        (IMAGES, {"kind": "pool", "size": 8}, ShapeError, "size must be a square"),
        (IMAGES, {"kind": "crop"}, ModelError, "kind must be one of pad, pool, project, random"),
        (IMAGES, {"kind": ["pad"]}, ModelError, "kind must be one of pad, pool, project, random"),
        (IMAGES, {"size": np.array(900.5)}, ShapeError, "size must be a positive integer"),
        (IMAGES, {"dtype": int}, ModelError, "dtype must be a dtype of floats, got int64"),
        (IMAGES, {"dtype": "grey"}, ModelError, "dtype must be a dtype of floats, got 'grey'"),
        (np.ma.masked_array(IMAGES, IMAGES > 9), {}, ModelError, "images must have no masked"),
        (IMAGES, {"scaling": "unit"}, ModelError, "scaling must be 'raw' or 'standardized'"),
    ],
)
def test_bad_arguments_are_named(images, settings, error, match):
    with pytest.raises(error, match=match):
        features(images, **settings)
