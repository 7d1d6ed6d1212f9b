"""Flash kernel on tiny cases, worked out by hand to the nanosecond."""

import numpy as np
import pytest

from archsim.devices.flash import columns as k
from archsim.devices.flash.geometry import page_layout, page_type
from archsim.devices.flash.replay import SPECS, Drive, device_names, device_spec, simulate
from archsim.devices.flash.tables import Config, tables
from archsim.units import InputError

ONE = device_spec("ufs_2ch_1chip_2die_4pl")
TWO = device_spec("ufs_2ch_2chip_2die_4pl")
LINK_IN = 5 + 6 + 19  # doorbell, fetch, entry
DONE = 8  # completion entry
LSB = 45020


def responses(rows, depth=0, spec=ONE):
    rows = np.array(rows, np.int64)
    done = simulate(spec, [rows], Drive(depth), int(rows[:, 3].max()))
    return done.responses_ns.tolist(), done


@pytest.mark.parametrize(("sectors", "data", "link"), [(1, 256, 120), (8, 2048, 960), (32, 8192, 3840)])
def test_one_read(sectors, data, link):
    got, done = responses([(0, 0, 0, sectors)])
    assert got == [LINK_IN + 290 + LSB + data + link + DONE]
    assert done.counts["read"] == 1


def test_pages_of_two_channels_overlap():
    got, done = responses([(0, 0, 0, 64)])  # pages 0 and 1: one on each channel
    assert got == [LINK_IN + 290 + LSB + 8192 + 7680 + DONE]
    assert done.counts["read"] == 2


def test_two_planes_of_a_die_share_a_command():
    both, done = responses([(0, 0, 0, 8 * 32)])  # pages 0 to 7: on each channel two planes of each die
    assert (done.counts["read"], done.counts["multiplane_read"]) == (0, 4)
    assert both == [LINK_IN + 2 * (940 + LSB + 2 * 8192) + 30720 + DONE]


def test_planes_at_different_pages_do_not_share_a_command():
    # Page 0 is the first of its plane; page 20 follows page 4 on the plane beside it, so it is that plane's second.
    first = [(0, 0, 4 * 32, 32)]
    _, done = responses([*first, (10**6, 0, 0, 32), (10**6, 0, 20 * 32, 32)])
    assert (done.counts["read"], done.counts["multiplane_read"]) == (3, 0)


def test_second_die_of_a_chip_waits():
    _, done = responses([(0, 0, 0, 32), (0, 0, 2 * 32, 32)])  # pages 0 and 2: the two dies of the chip on channel 0
    assert done.time_ns > 2 * (290 + LSB + 8192)


def test_one_write():
    got, done = responses([(0, 1, 0, 32)])
    assert got == [5 + 6 + 19 + 6 + 3840 + 361 + 8192 + 400000 + DONE]
    assert done.counts["program"] == 1


def test_partial_overwrite_reads_the_rest_first():
    got, done = responses([(0, 1, 0, 16), (10**7, 1, 8, 16)])  # the second leaves sectors 0 to 7
    first = 5 + 6 + 19 + 6 + 1920 + 361 + 4096 + 400000 + DONE
    assert got == [first, first + 290 + LSB + 2048]
    assert (done.counts["read"], done.counts["program"]) == (1, 2)


def test_full_overwrite_reads_nothing():
    _, done = responses([(0, 1, 0, 16), (10**7, 1, 0, 32)])
    assert done.counts["read"] == 0


def test_completion_doorbell_delays_the_next_request():
    got, _ = responses([(0, 0, 0, 8), (0, 0, 0, 8)], depth=1)
    assert got[1] - got[0] == 5


def test_four_planes_share_a_command():
    whole, done = responses([(0, 0, 0, 32 * 32)])  # on each channel four planes of each of two dies, two pages of each
    assert (done.counts["read"], done.counts["multiplane_read"], done.counts["pages_read"]) == (0, 8, 32)
    assert whole == [LINK_IN + 4 * (290 + 3 * 650 + LSB + 4 * 8192) + 122880 + DONE]


def test_two_planes_are_programmed_together():
    got, done = responses([(0, 1, 0, 8 * 32)])  # on each channel two planes of each of two dies, one die at a time
    assert (done.counts["program"], done.counts["multiplane_program"]) == (0, 4)
    assert got == [LINK_IN + 6 + 30720 + 2 * (361 + 816 + 2 * 8192 + 400000) + DONE]


def test_reads_take_the_time_of_the_page_type():
    rows = [(i * 10**6, 0, 16 * 32 * i, 8) for i in range(14)]  # the pages 0 to 13 of one plane
    extra = [0] * 6 + [10000] * 2 + [0] * 2 + [10000] * 2 + [20000] * 2
    assert responses(rows)[0] == [LINK_IN + 290 + LSB + more + 2048 + 960 + DONE for more in extra]


def test_a_mapping_cache_miss_reads_a_mapping_page_first():
    spec = ONE.model_copy(update={"map_cache_bytes": 2 * ONE.map_segment_bytes})
    segment = ONE.map_segment_bytes // 512
    hit = LINK_IN + 290 + LSB + 8192 + 3840 + DONE
    fetch = 290 + LSB + 2048  # 4 KiB of mapping from the chip that the page itself is on
    # Two misses fill the cache, page 0 is used again, a third segment takes the place of the second, which then misses.
    visits = [0, segment, 0, 2 * segment, 0, segment]
    rows = [(i * 10**6, 0, first, 32) for i, first in enumerate(visits)]
    got, done = responses(rows, spec=spec)
    assert got == [hit + fetch, hit + fetch, hit, hit + fetch, hit, hit + fetch]
    assert (done.counts["mapping_reads"], done.counts["mapping_writes"]) == (4, 0)


def test_collection_moves_the_valid_page_and_erases():
    small = {"channels": 1, "chips": 1, "dies": 1, "planes": 1, "blocks_per_plane": 16, "pages_per_block": 4}
    spec = ONE.model_copy(update={**small, "overprovisioning": 0.3})
    # Of block 0 only page 3 stays valid. The 44th write fills the 11th block: 2 of 13 free blocks are left, below 3.
    pages = [0, 1, 2, 3, 0, 1, 2, *range(4, 41)]
    got, done = responses([(0, 1, 32 * page, 32) for page in pages], depth=1, spec=spec)
    one = 5 + LINK_IN + 6 + 3840 + 361 + 8192 + 400000 + DONE
    assert got == [one - 5] + [one] * 43
    written = 1 + sum(got) - DONE  # the last program comes before the move
    move = 290 + LSB + 8192 + 361 + 8192 + 400000
    assert done.time_ns == written + move + 220 + 3_500_000
    counted = ("collections", "pages_moved", "blocks_erased", "pages_programmed", "pages_read")
    assert [done.counts[name] for name in counted] == [1, 1, 1, 45, 1]


def test_page_types_follow_the_stated_rule():
    kinds = [page_type(ONE, page) for page in range(20)]
    assert kinds == [0] * 6 + [1, 1] + [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]
    array = tables(ONE, "prime", False)[1].array_ns
    assert array[[0, 6, 12]].tolist() == [45020, 55020, 65020]


def test_layout_steps_channel_chip_die_plane():
    place = page_layout(TWO)
    assert place[:5].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]]
    other = page_layout(TWO.model_copy(update={"layout": "PDWC"}))
    assert other[1].tolist() == [0, 0, 0, 1]
    assert len({tuple(row) for row in other.tolist()}) == TWO.total_planes


def test_config_columns_are_in_order():
    names = [name[2:].lower() for name in vars(k) if name.startswith("K_")]
    assert names == list(Config._fields)
    assert k.K_CHANNELS == k.CONFIG


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("layout: CWDP", "layout: CWDD", "each of C, W, D and P"),
        ("overprovisioning: 0.07", "overprovisioning: 0.01", "2.56 spare blocks"),
        ("page_cycle: [0, 1, 2]", "page_cycle: [0, 5]", "page type 5 has no read_ps"),
        ("map_segment_bytes: 16 MiB", "map_segment_bytes: 48 KiB", "no power of two"),
        ("program_ps: 400 us", "program_ps: 400", "has no unit"),
        ("channels: 2", "chanels: 2", "did you mean 'channels'"),
        ("device: flash_array", "device: flash", "not for 'flash_array'"),
    ],
)
def test_specs_that_cannot_be_are_refused(tmp_path, old, new, words):
    text = (SPECS / "ufs_2ch_1chip_2die_4pl.yaml").read_text()
    assert text.count(old) == 1
    path = tmp_path / "ufs_2ch_1chip_2die_4pl.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=words) as caught:
        device_spec(path)
    assert "\n" not in str(caught.value)


def test_unknown_device_is_named():
    with pytest.raises(InputError, match="did you mean 'ufs_4_0'"):
        device_spec("ufs_4.0")


@pytest.mark.parametrize("name", device_names())
def test_every_number_of_a_part_has_a_source(name):
    assert device_spec(name).total_planes > 0
