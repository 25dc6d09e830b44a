"""A pool's board: order within groups, turns between targets, bounds, what people hold back."""

from collections.abc import Callable

from core.dispatch.job import GroupKey, JobKey, JobRef, Mode
from core.dispatch.scheduler import JobScheduler
from core.dispatch.target import TargetKey

NOW = 1_000.0
BLOCK, NEXT = Mode.BLOCK_ON_ERROR, Mode.NEXT_ON_ERROR


def job(position: int, group: str | None = "g", mode: Mode = BLOCK, **fields: object) -> JobRef:
    known: dict[str, object] = {"target": "http://a", "tenant": 1} | fields
    return JobRef(job_id=f"job{position}", position=position, group=group, mode=mode, **known)  # type: ignore[arg-type]  # what the fields are is the test's affair


def board_of(*jobs: JobRef, group_limit: int = 100) -> JobScheduler:
    board = JobScheduler(group_limit)
    for one in jobs:
        board.add(one, NOW)
    return board


def anywhere(_: TargetKey) -> bool:
    return True


def nowhere(_: TargetKey) -> bool:
    return False


def but(target: str) -> Callable[[TargetKey], bool]:
    return lambda site: site[1] != target


def take(board: JobScheduler, now: float = NOW) -> str | None:
    taken = board.take(now, anywhere)
    return taken.job_id if taken else None


def drain(board: JobScheduler, now: float = NOW) -> list[str]:
    """Take and finish until nothing may go."""
    names: list[str] = []
    while (one := board.take(now, anywhere)) is not None:
        names.append(one.job_id)
        board.finish(one.key, now)
    return names


GROUP = GroupKey(1, "g")


def key(position: int) -> JobKey:
    return JobKey(1, f"job{position}")


class TestOrder:
    def test_a_group_goes_one_by_one_in_its_order(self) -> None:
        board = board_of(job(2), job(1), job(3))
        assert take(board) == "job1"
        assert take(board) is None
        board.finish(key(1), NOW)
        assert drain(board) == ["job2", "job3"]

    def test_sequence_goes_before_position(self) -> None:
        assert drain(board_of(job(1), job(2, sequence=5))) == ["job2", "job1"]

    def test_groups_go_side_by_side(self) -> None:
        board = board_of(job(1, "g"), job(2, "h"), job(3, "g"))
        assert {take(board), take(board), take(board)} == {"job1", "job2", None}

    def test_the_same_name_of_two_tenants_is_two_groups(self) -> None:
        board = board_of(job(1), job(2, tenant=2))
        assert {take(board), take(board)} == {"job1", "job2"}

    def test_a_group_that_is_called_like_a_job_is_not_that_job(self) -> None:
        board = board_of(job(1, None), job(2, "job1"))
        assert {take(board), take(board)} == {"job1", "job2"}

    def test_immediate_jobs_keep_no_order(self) -> None:
        board = board_of(*(job(at, "g", Mode.IMMEDIATE) for at in range(3)))
        assert {take(board) for _ in range(3)} == {"job0", "job1", "job2"}

    def test_a_delayed_first_job_holds_the_rest(self) -> None:
        for mode in (BLOCK, NEXT):
            board = board_of(job(1, mode=mode, due=NOW + 5), job(2, mode=mode))
            assert take(board) is None
            assert board.next_due() == NOW + 5
            assert drain(board, NOW + 5) == ["job1", "job2"]


class TestFailures:
    def test_what_blocks_waits_for_the_retry(self) -> None:
        board = board_of(job(1), job(2))
        take(board)
        board.retry(key(1), NOW + 3, NOW)
        assert take(board) is None
        assert drain(board, NOW + 3) == ["job1", "job2"]

    def test_others_pass_by_what_waits_for_its_retry(self) -> None:
        board = board_of(*(job(at, mode=NEXT) for at in (1, 2, 3)))
        take(board)
        board.retry(key(1), NOW + 3, NOW)
        assert take(board) == "job2"
        board.retry(key(2), NOW + 1, NOW)
        assert drain(board) == ["job3"]
        assert drain(board, NOW + 3) == ["job1", "job2"]

    def test_one_that_blocks_does_not_pass_by(self) -> None:
        board = board_of(job(1, mode=NEXT), job(2))
        take(board)
        board.retry(key(1), NOW + 3, NOW)
        assert take(board) is None

    def test_a_stuck_job_holds_its_group_until_it_is_to_be_sent_again(self) -> None:
        board = board_of(job(1), job(2), job(3, "h"))
        take(board)
        board.block(key(1), NOW)
        assert list(board.blocked()) == [(GROUP, key(1))]
        assert drain(board, NOW + 1e6) == ["job3"]
        assert board.add(job(1), NOW)
        assert board.stale_groups(10) == [GROUP]
        board.settle(GROUP, [job(1), job(2)], is_all=True, now=NOW)
        assert drain(board) == ["job1", "job2"]

    def test_others_pass_by_a_stuck_one(self) -> None:
        board = board_of(job(1), job(2, mode=NEXT), job(3))
        take(board)
        board.block(key(1), NOW)
        assert drain(board) == ["job2"]

    def test_a_known_job_is_not_taken_in_twice(self) -> None:
        board = board_of(job(1), job(2))
        assert not board.add(job(2), NOW)
        take(board)
        assert not board.add(job(1), NOW)
        board.finish(key(1), NOW)
        assert drain(board) == ["job2"]
        assert len(board) == 0

    def test_a_known_job_may_go_sooner_than_was_known(self) -> None:
        for group in ("g", None):
            board = board_of(job(1, group, due=NOW + 600, retrying=True))
            assert not board.add(job(1, group, due=NOW + 900), NOW)
            assert take(board) is None
            assert board.add(job(1, group), NOW)
            assert drain(board) == ["job1"]

    def test_what_is_said_of_strangers_is_not_heard(self) -> None:
        board = board_of(job(1))
        board.finish(key(9), NOW)
        board.drop(key(9), NOW)
        assert drain(board) == ["job1"]

    def test_one_that_waits_can_be_over(self) -> None:
        board = board_of(job(1), job(2))
        board.finish(key(1), NOW)
        assert drain(board) == ["job2"]


class TestSites:
    def test_targets_take_turns(self) -> None:
        jobs = [job(at, None, target="http://a" if at < 3 else "http://b") for at in range(6)]
        board = board_of(*jobs)
        assert [take(board) for _ in range(6)] == ["job0", "job3", "job1", "job4", "job2", "job5"]

    def test_a_target_that_takes_nothing_holds_nobody_else(self) -> None:
        board = board_of(job(1, None), job(2, None, target="http://b"))
        first = board.take(NOW, but("http://a"))
        assert first is not None
        assert first.job_id == "job2"
        assert take(board) is None  # nobody said that the first may take again
        board.reopen((1, "http://a"))
        board.reopen((1, "http://a"))
        assert drain(board) == ["job1"]

    def test_what_comes_for_a_held_target_waits_with_it(self) -> None:
        board = board_of(job(1, None))
        assert board.take(NOW, nowhere) is None
        board.add(job(2, None), NOW)
        board.add(job(3, "h"), NOW)
        assert take(board) is None
        assert not board.has_listed
        board.reopen((1, "http://a"))
        assert board.has_listed
        assert len(drain(board)) == 3

    def test_a_target_released_after_its_jobs_have_gone_elsewhere(self) -> None:
        board = board_of(job(1))
        assert board.take(NOW, nowhere) is None
        board.finish(key(1), NOW)
        board.reopen((1, "http://a"))
        assert take(board) is None
        board.reopen((1, "http://a"))
        assert drain(board_of()) == []

    def test_a_group_whose_next_job_goes_elsewhere_is_listed_there(self) -> None:
        board = board_of(job(5))
        board.add(job(4, target="http://b"), NOW)
        assert drain(board) == ["job4", "job5"]

    def test_a_held_target_keeps_no_group_whose_next_job_goes_elsewhere(self) -> None:
        board = board_of(job(1), job(2, target="http://b"), job(3, "h"))
        assert board.take(NOW, nowhere) is None
        board.settle(GROUP, [job(2, target="http://b")], is_all=True, now=NOW)
        assert take(board) == "job2"
        board.finish(key(3), NOW)
        assert not board.has_listed  # nobody goes there any more, so nobody waits for it
        board.add(job(4, "h"), NOW)
        assert take(board) == "job4"

    def test_a_job_that_fell_due_meanwhile_goes_first_and_may_go_elsewhere(self) -> None:
        board = board_of(job(1, mode=NEXT, target="http://b"), job(2, mode=NEXT))
        take(board)
        board.retry(key(1), NOW + 3, NOW)  # the second stands listed when the first falls due
        assert drain(board, NOW + 3) == ["job1", "job2"]


class TestParking:
    def test_a_parked_group_stays_until_it_is_let_go(self) -> None:
        board = board_of(job(1), job(2, "h"))
        board.park([GROUP], NOW)
        assert drain(board) == ["job2"]
        board.add(job(3), NOW)
        board.park([], NOW)
        assert board.stale_groups(10) == [GROUP]
        board.settle(GROUP, [job(1), job(3)], is_all=True, now=NOW)
        assert drain(board) == ["job1", "job3"]

    def test_a_group_may_be_parked_before_anything_of_it_is_known(self) -> None:
        board = JobScheduler()
        board.park([GROUP], NOW)
        board.add(job(1), NOW)
        board.settle(GroupKey(1, "x"), [], is_all=True, now=NOW)
        assert take(board) is None


class TestBounds:
    def test_what_a_group_has_too_many_of_stays_in_postgres(self) -> None:
        board = board_of(*(job(at) for at in range(6)), group_limit=4)
        assert len(board) == 4
        assert not board.add(job(9), NOW)
        assert board.stale_groups(10) == []
        assert drain(board) == ["job0", "job1", "job2", "job3"]
        assert board.stale_groups(10) == [GROUP]
        assert not board.add(job(9), NOW)
        board.settle(GROUP, [job(4), job(5), job(9)], is_all=True, now=NOW)
        assert board.stale_groups(10) == []
        assert drain(board) == ["job4", "job5", "job9"]

    def test_one_that_belongs_before_the_others_takes_the_place_of_the_last(self) -> None:
        board = board_of(*(job(at) for at in range(2, 6)), group_limit=4)
        assert board.add(job(1), NOW)
        assert key(5) not in board
        assert take(board) == "job1"

    def test_what_postgres_says_counts(self) -> None:
        board = board_of(job(1), job(2))
        taken = take(board)
        assert taken == "job1"
        board.settle(GROUP, [job(1), job(3)], is_all=True, now=NOW)
        assert take(board) is None
        board.finish(key(1), NOW)
        assert drain(board) == ["job3"]

    def test_a_lost_job_makes_its_group_be_read(self) -> None:
        board = board_of(job(1), job(2), job(7, None))
        take(board)
        board.drop(key(1), NOW)
        assert board.stale_groups(10) == [GROUP]
        board.settle(GROUP, [job(0, due=NOW + 9), job(1), job(2)], is_all=True, now=NOW)
        board.drop(key(7), NOW)
        assert board.stale_groups(10) == []
        assert take(board) is None
        assert drain(board, NOW + 9) == ["job0", "job1", "job2"]

    def test_a_group_of_which_nothing_is_left_is_not_read_for_ever(self) -> None:
        board = board_of(job(1))
        take(board)
        board.drop(key(1), NOW)
        assert board.stale_groups(10) == [GROUP]
        board.settle(GROUP, [], is_all=True, now=NOW)
        assert board.stale_groups(10) == []
        assert not board.knows(GROUP)

    def test_a_group_can_be_doubted(self) -> None:
        board = board_of(job(1))
        board.mark_stale(GROUP)
        board.settle(GROUP, [job(1), job(2)], is_all=True, now=NOW)
        assert board.knows(GROUP)
        assert board.stale_groups(10) == []
        assert len(board) == 2

    def test_a_group_that_nothing_is_known_of_can_be_settled(self) -> None:
        board = JobScheduler()
        board.settle(GROUP, [job(1)], is_all=True, now=NOW)
        assert [(group, q.is_blocked) for group, q in board.groups()] == [(GROUP, False)]
        assert drain(board) == ["job1"]
        assert list(board.groups()) == []

    def test_it_knows_which_job_has_waited_longest(self) -> None:
        board = board_of(job(3), job(2, None), job(5))
        assert board.oldest_id() == "job2"
        assert JobScheduler().oldest_id() is None

    def test_there_is_room_for_so_many(self) -> None:
        board = JobScheduler()
        rest = board.add_while_room([job(at, None) for at in range(5)], NOW, 3)
        assert [one.job_id for one in rest] == ["job3", "job4"]
        assert board.add_while_room([job(0, None)], NOW, 3) == []
        assert len(board) == 3

    def test_two_tenants_may_have_jobs_with_the_same_id(self) -> None:
        board = board_of(job(1, None), job(1, None, tenant=2))
        taken = [board.take(NOW, anywhere), board.take(NOW, anywhere)]
        assert [one and one.key for one in taken] == [JobKey(1, "job1"), JobKey(2, "job1")]
        board.finish(JobKey(1, "job1"), NOW)
        board.retry(JobKey(2, "job1"), NOW, NOW)
        assert drain(board) == ["job1"]
        assert len(board) == 0

    def test_a_group_may_be_named_like_a_job(self) -> None:
        board = board_of(job(1, "job2"), job(2, None))
        assert sorted(drain(board)) == ["job1", "job2"]

    def test_it_forgets_when_it_was_to_look(self) -> None:
        board = board_of(job(1, due=NOW + 5))
        board.finish(key(1), NOW)
        assert board.next_due() is None
        board.add(job(2, due=NOW + 9), NOW)
        board.add(job(1, due=NOW + 4), NOW)
        assert board.next_due() == NOW + 4
        assert drain(board, NOW + 20) == ["job1", "job2"]


def test_it_says_which_jobs_it_knows_and_takes_news_of_them() -> None:
    board = board_of(job(1), job(2, group=None))
    assert board.keys() == [key(1), key(2)]
    assert board.add(job(2, group=None, target="http://b"), NOW)  # it goes elsewhere now
    assert not board.add(job(2, group=None, target="http://b"), NOW)
    taken = board.take(NOW, but("http://a"))
    assert taken is not None
    assert (taken.job_id, taken.target) == ("job2", "http://b")
    board.retry(taken.key, NOW + 5, NOW, target="http://c")
    again = board.take(NOW + 5, anywhere)
    assert again is not None
    assert again.target == "http://c"
