"""Offers between two threads: each side waits for the other's word, and never for one that will not
come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from psclust.replication.sync.barrier_messages import Kind, Token
from psclust.train.sync.update_offer import Offer, UpdateOffer

OFFER = Offer([1, 2], Token(Kind.GO, 10, 101, 8))
PATIENCE_S = 60


def test_an_offer_is_taken_and_answered() -> None:
    offers = UpdateOffer(0)
    with ThreadPoolExecutor() as threads:
        for round_ in (100, 101, 103):
            taken = threads.submit(offers.take, round_)
            assert offers.make(round_, OFFER)
            assert taken.result(PATIENCE_S) is OFFER
            assert not offers.wait(0)
            answered = threads.submit(offers.answered)
            offers.answer([round_])
            assert answered.result(PATIENCE_S) == [round_]


def test_the_replica_waits_until_it_is_known_that_there_is_no_offer() -> None:
    offers = UpdateOffer(0)
    with ThreadPoolExecutor() as threads:
        taken = threads.submit(offers.take, 101)
        offers.decline(100)
        assert not taken.done()
        offers.decline(101)
        assert taken.result(PATIENCE_S) is None


def test_there_is_one_word_a_round() -> None:
    offers = UpdateOffer(0)
    offers.decline(100)
    assert not offers.make(100, OFFER)
    assert offers.take(100) is None


def test_a_round_that_is_over_has_no_offer() -> None:
    offers = UpdateOffer(0)
    offers.decline(102)
    assert offers.take(100) is None


def test_when_it_is_closed_nobody_waits() -> None:
    offers = UpdateOffer(0)
    with ThreadPoolExecutor() as threads:
        assert offers.make(100, OFFER)
        answered = threads.submit(offers.answered)
        assert offers.take(100) is OFFER
        offers.close()
        assert answered.result(PATIENCE_S) is None
    assert offers.take(101) is None
    assert not offers.make(101, OFFER)


def test_one_who_waits_for_a_word_hears_that_it_is_closed() -> None:
    offers = UpdateOffer(0)
    with ThreadPoolExecutor() as threads:
        taken = threads.submit(offers.take, 100)
        offers.close()
        assert taken.result(PATIENCE_S) is None


def test_the_next_offer_is_taken_at_once_when_the_update_is_made() -> None:
    offers, following = UpdateOffer(0), Offer([3, 4], Token(Kind.GO, 10, 102, 9))
    assert offers.make(100, OFFER)
    assert offers.take(100) is OFFER
    offers.follow(100, following)
    offers.answer([1])
    assert offers.take(101) is following
    assert offers.answered() == [1]
    # The coordinator offers it when it gets there: it is offered.
    assert offers.is_offered(101)
    assert offers.make(101, OFFER)
    offers.answer([1, 2])
    assert offers.answered() == [1, 2]


def test_there_is_no_next_offer_if_the_update_is_not_made_or_is_made_already() -> None:
    offers = UpdateOffer(0)
    assert offers.make(100, OFFER)
    offers.follow(100, OFFER)
    offers.answer([0])
    assert not offers.is_offered(101)
    assert offers.answered() == [0]
    assert offers.make(101, OFFER)
    offers.answer([1])
    offers.follow(101, OFFER)
    assert offers.answered() == [1]
    assert not offers.is_offered(102)
    offers.decline(102)
    assert offers.take(102) is None


def test_an_answer_is_heard_after_the_end_and_a_next_offer_that_nobody_takes_is_not() -> None:
    offers = UpdateOffer(0)
    assert offers.make(100, OFFER)
    offers.follow(100, OFFER)
    offers.answer([1])
    offers.close()
    assert offers.answered() == [1]
    assert offers.make(101, OFFER)
    assert offers.answered() is None


def test_the_replica_may_see_the_next_offer_early_and_waits_until_it_is_known() -> None:
    offers, following = UpdateOffer(0), Offer([3, 4], Token(Kind.GO, 10, 102, 9))
    with ThreadPoolExecutor() as threads:
        for round_, offered in ((100, following), (103, None)):
            assert offers.make(round_, OFFER)
            assert offers.take(round_) is OFFER
            seen = threads.submit(offers.following, round_)
            assert not seen.done()
            offers.follow(round_, offered)
            assert seen.result(PATIENCE_S) is offered
            offers.answer([1])
            assert offers.is_offered(round_ + 1) is (offered is not None)
            offers.answered()
        assert offers.make(105, OFFER)
        seen = threads.submit(offers.following, 105)
        offers.close()
        assert seen.result(PATIENCE_S) is None
