from serve_app.cluster_stats import RateMeter


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_is_the_growth_between_two_looks() -> None:
    clock = Clock()
    rate = RateMeter(clock)
    assert rate.update(100) == 0
    clock.now = 2.0
    assert rate.update(150) == 25


def test_looks_in_quick_succession_tell_the_last_rate() -> None:
    clock = Clock()
    rate = RateMeter(clock)
    rate.update(0)
    clock.now = 2.0
    assert rate.update(10) == 5
    clock.now = 2.5
    assert rate.update(1000) == 5


def test_a_counter_that_began_anew_makes_no_negative_rate() -> None:
    clock = Clock()
    rate = RateMeter(clock)
    rate.update(1000)
    clock.now = 2.0
    assert rate.update(4) == 0
