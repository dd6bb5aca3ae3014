"""The rng argument: what repeats, what continues, what is refused."""

import numpy as np
import pytest

import ebm
from ebm._randomness import generator

MACHINE = ebm.BoltzmannMachine([[0, 1, -1], [1, 0, 2], [-1, 2, 0]], [0.3, -0.2, 0.5])


@pytest.mark.parametrize("seed", [7, np.int64(7), np.uint8(7), np.random.SeedSequence(7)])
def test_a_seed_gives_the_same_stream_every_time(seed):
    """All forms of one seed give one stream, at every use."""
    wanted = np.random.default_rng(7).random(5)
    for _ in range(2):
        np.testing.assert_array_equal(generator(seed).random(5), wanted)


def test_a_generator_continues():
    """A Generator is used as it is, so two uses give one longer stream."""
    stream = np.random.default_rng(7)
    assert generator(stream) is stream
    drawn = [generator(stream).random(3), generator(stream).random(3)]
    np.testing.assert_array_equal(np.concatenate(drawn), np.random.default_rng(7).random(6))


def test_none_is_fresh():
    """Without a seed two streams differ (they agree once in 2^256)."""
    assert (generator().random(4) != generator(None).random(4)).any()


@pytest.mark.parametrize(
    "rng",
    [
        np.random.RandomState(1),
        np.random,
        1.0,
        np.float64(1),
        True,
        np.True_,
        "1",
        [1, 2],
        np.array(1),
    ],
)
def test_other_sources_are_refused(rng):
    """Legacy states, floats, bools and lists; the type and the cure are named."""
    with pytest.raises(TypeError, match=f"got {type(rng).__name__}; .*default_rng"):
        generator(rng)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: ebm.Binary(6).random(20, rng),
        lambda rng: ebm.Reals(6).random(20, rng),
        lambda rng: ebm.exact(MACHINE).sample(20, rng),
    ],
)
def test_every_rng_argument_keeps_the_rules(draw):
    """Equal seeds, equal draws; one Generator twice, other draws; no global state is touched."""
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    np.testing.assert_array_equal(draw(3), draw(3))
    np.testing.assert_array_equal(draw(3), draw(np.random.default_rng(3)))
    stream = np.random.default_rng(3)
    assert (draw(stream) != draw(stream)).any()
    assert (draw(None) != draw(None)).any()
    with pytest.raises(TypeError, match="rng must be"):
        draw(np.random.RandomState(3))
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
