"""A pool's board beside Postgres: reads that are overtaken, and jobs that take room for nothing."""

from core.dispatch.job import GroupKey
from tests.unit.core.dispatch.test_scheduler import (
    GROUP,
    NEXT,
    NOW,
    anywhere,
    board_of,
    but,
    drain,
    job,
    key,
    nowhere,
    take,
)


class TestReadingWhileJobsEnd:
    def test_what_ended_meanwhile_does_not_come_back(self) -> None:
        board = board_of(job(1), job(2))
        take(board)
        with board.reading() as changed, board.reading() as others:
            board.finish(key(1), NOW)
        assert changed == others == {key(1)}
        told = [job(1, due=NOW + 45), job(2)]  # as they were before
        board.settle(GROUP, told, NOW, is_all=True, changed=changed)
        assert drain(board) == ["job2"]

    def test_what_is_to_be_sent_again_keeps_its_time(self) -> None:
        board = board_of(job(1), job(2))
        take(board)
        with board.reading() as changed:
            board.retry(key(1), NOW + 3, NOW)
        board.settle(GROUP, [job(1, due=NOW + 45), job(2)], NOW, is_all=True, changed=changed)
        assert board.next_due() == NOW + 3

    def test_nothing_is_noted_once_it_is_read(self) -> None:
        board = board_of(job(1))
        with board.reading() as changed:
            take(board)
        board.finish(key(1), NOW)
        assert changed == set()


class TestRoom:
    def test_a_group_that_a_person_has_to_free_takes_the_room_of_one_job(self) -> None:
        board = board_of(*(job(at) for at in range(4)), *(job(at, "h") for at in range(10, 14)))
        take(board)
        board.block(key(0), NOW)
        assert len(board) == 5
        board.park([GroupKey(1, "h")], NOW)
        take(board)
        assert len(board) == 2
        assert board.stale_groups(10) == []
        assert not board.add(job(9), NOW)  # Postgres has it
        assert drain(board) == []
        board.settle(GROUP, [job(0, stuck=True), job(1), job(2)], is_all=True, now=NOW)
        assert len(board) == 2

    def test_jobs_that_pass_by_a_failed_one_stay(self) -> None:
        board = board_of(job(1), job(2, mode=NEXT), job(3, mode=NEXT))
        take(board)
        board.block(key(1), NOW)
        assert len(board) == 3
        assert drain(board) == ["job2", "job3"]

    def test_what_cannot_go_soon_is_let_go(self) -> None:
        board = board_of(
            job(1, None, due=NOW + 5),
            job(2, None, due=NOW + 50),
            job(3, "h", due=NOW + 50),
            job(4, "h"),
            job(5, "taken"),
            job(6, "taken"),
            *(job(at, None, target="http://b") for at in range(10, 20)),
            job(30, None, target="http://c"),
        )
        assert take(board) == "job5"
        while board.take(NOW, but("http://b")):
            pass
        board.add(job(31, None, target="http://c"), NOW)
        assert board.evict(NOW, NOW + 15, 4, nowhere) == 3 + 6
        left = {1, 5, 6, 10, 11, 12, 13, 30, 31}
        assert {at for at in range(40) if key(at) in board} == left
        assert board.evict(NOW, NOW + 15, 4, nowhere) == 0
        board.reopen((1, "http://b"))
        assert len(drain(board)) == 5

    def test_a_group_that_was_let_go_is_not_read(self) -> None:
        board = board_of(*(job(at, due=NOW + 99) for at in range(6)), group_limit=4)
        board.mark_stale(GROUP)
        assert board.evict(NOW, NOW, 0, anywhere) == 4
        assert board.stale_groups(10) == []
        assert not board.knows(GROUP)
        assert board.next_due() is None

    def test_of_a_site_without_hope_few_stay(self) -> None:
        for is_hopeless, stay in ((anywhere, 10), (nowhere, 15)):
            board = board_of(*(job(at, None) for at in range(30)))
            assert board.take(NOW, nowhere) is None
            board.evict(NOW, NOW, 15, is_hopeless)
            assert len(board) == stay
