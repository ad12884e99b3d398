from psclust.train.held_parts import HeldParts


def test_what_is_before_a_part_that_was_used_is_read() -> None:
    held = HeldParts()
    assert [held.add(part) for part in (7, 3, 5)] == [0, 1, 2]
    assert held.before(7) == []
    assert held.before(5) == [7, 3]
    assert held.before(3) == ()
    assert held.parts == (5,)
    assert held.add(9) == 3


def test_an_end_says_which_were_read() -> None:
    held = HeldParts()
    for part in (7, 3, 5):
        held.add(part)
    held.before(3)
    assert held.read_up_to(-1) == []  # it has not ended
    assert held.read_up_to(2) == [3]
    assert held.read_up_to(9) == [5]
    held.begin([4, 2])
    assert held.add(6) == 2
    assert held.read_up_to(1) == [4]
