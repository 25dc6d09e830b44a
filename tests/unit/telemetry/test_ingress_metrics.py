from telemetry.families import cumulative
from telemetry.ingress_metrics import BOUNDS, HttpMetrics


def samples(tally: HttpMetrics) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("le") or sample.labels.get("status", "")): sample.value
        for family in tally.collect()
        for sample in family.samples
    }


def test_times_fall_into_the_bucket_of_the_next_bound() -> None:
    tally = HttpMetrics("r1")
    for seconds in (BOUNDS[0], BOUNDS[0] + 0.001, 11.0):
        tally.observe("POST", "/x", 200, seconds)
    tally.observe("POST", "/x", 429, 0.001)
    found = samples(tally)
    assert found["muster_http_requests_total", "200"] == 3
    assert found["muster_http_requests_total", "429"] == 1
    name = "muster_http_request_seconds"
    assert [found[f"{name}_bucket", str(bound)] for bound in BOUNDS[:2]] == [2, 3]
    assert found[f"{name}_bucket", "10.0"] == 3
    assert found[f"{name}_bucket", "+Inf"] == found[f"{name}_count", ""] == 4
    assert round(found[f"{name}_sum", ""], 6) == round(11.006, 6)


def test_what_was_held_open_has_no_time() -> None:
    tally = HttpMetrics("r1")
    tally.observe("GET", "/stream", 200, None)
    assert samples(tally)["muster_http_request_seconds_count", ""] == 0


def test_each_bucket_includes_the_smaller_ones() -> None:
    assert cumulative((0.5, 1.0), [1, 2, 3]) == [("0.5", 1), ("1.0", 3), ("+Inf", 6)]
