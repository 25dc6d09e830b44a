"""What is true of every route."""

from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute

from core.access.permissions import Permission
from core.access.tokens import CALLBACK, STREAM
from core.shared.config import Config
from serve_app.api import Api, create_app
from serve_app.http.openapi import requirement_of
from serve_app.http.permissions import RequiresOrToken

PUBLIC = {
    "/actuator/health",
    "/actuator/health/liveness",
    "/actuator/health/readiness",
    "/api/sample/webhook",
    "/api/sample/webhook/defer",
    "/api/sample/webhook/fail-permanent",
    "/api/sample/webhook/fail-transient",
    "/api/sample/webhook/slow",
    "/docs",
    "/docs.js",
    "/docs.css",
    "/gather",
    "/gather.css",
    "/gather.js",
    "/openapi.json",
}
# Questions with too much in them for a URL: they change nothing.
ASKED_BY_POST = {
    "/control/collections/{id}/preview",
    "/control/data-paths/validate",
    "/control/data-paths/resolve",
    "/control/expressions/validate",
    "/control/expressions/evaluate",
    "/control/idempotency/preview",
    "/control/templates/render",
}


def make() -> Api:
    async def no_client() -> object:
        raise AssertionError("nothing here needs a client")

    return create_app(no_client, Config(dsn=""))  # type: ignore[arg-type]


APP = make()
ROUTES = [route for route in APP.routes if isinstance(route, APIRoute)]


def operations() -> Iterator[tuple[str, dict[str, object]]]:
    for path, methods in APP.openapi()["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_there_are_no_other_kinds_of_route() -> None:
    assert len(ROUTES) == len(APP.routes)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.methods} {route.path}")
def test_every_route_names_a_permission_or_is_on_the_public_list(route: APIRoute) -> None:
    assert (requirement_of(route) is None) == (route.path in PUBLIC)


def test_every_permission_opens_something() -> None:
    permits = [permit for route in ROUTES if (permit := requirement_of(route))]
    assert {permit.permission for permit in permits} == set(Permission)


def test_a_token_opens_what_it_is_for_only() -> None:
    opened = {
        route.path: permit.purpose
        for route in ROUTES
        if isinstance(permit := requirement_of(route), RequiresOrToken)
    }
    assert opened == {
        "/api/internal/callbacks/{service}": CALLBACK,
        "/aggregate/callback": CALLBACK,
        "/aggregate/stream": STREAM,
        "/api/gathers/{id}/stream": STREAM,
    }


def test_writing_needs_a_permission_to_write() -> None:
    for route in ROUTES:
        permit = requirement_of(route)
        if permit is not None and route.methods != {"GET"} and route.path not in ASKED_BY_POST:
            assert permit.permission.endswith(":write"), route.path


def test_answers_that_depend_on_values_of_records_need_a_permission_to_read_them() -> None:
    paths = {"/control/collections/{id}/preview", "/control/data-paths/resolve"}
    permits = [requirement_of(route) for route in ROUTES if route.path in paths]
    assert [permit and permit.permission for permit in permits] == [Permission.RECORDS_READ] * 2


def test_callbacks_are_matched_first() -> None:
    assert ROUTES[0].path == "/api/internal/callbacks/{service}"


def test_operations_have_tidy_names_of_their_own() -> None:
    names = [str(operation["operationId"]) for _, operation in operations()]
    assert len(set(names)) == len(names)
    assert all(name.isalpha() and name[0].islower() for name in names)


def test_every_operation_tells_what_it_is_and_what_it_may_answer() -> None:
    for name, operation in operations():
        assert operation["description"], name
        answers = operation["responses"]
        assert isinstance(answers, dict)
        for status, response in answers.items():
            if status != "204":
                assert response["content"], (name, status)
            if int(status) >= 400 and "health" not in name:
                assert list(response["content"]) == ["application/problem+json"], (name, status)
        assert {"429", "500", "503"} <= set(answers), name
        assert ({"401", "403"} <= set(answers)) == ("x-permission" in operation), name
        if "requestBody" in operation:
            assert {"400", "413", "415", "422"} <= set(answers), name


def test_every_schema_that_is_referred_to_is_there() -> None:
    document = APP.openapi()
    schemas = document["components"]["schemas"]

    def references(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key == "$ref":
                    yield str(inner)
                else:
                    yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas


def test_every_parameter_of_a_path_is_described() -> None:
    for name, operation in operations():
        in_path = {part[1:-1] for part in name.split("/") if part.startswith("{")}
        parameters = operation.get("parameters", [])
        assert isinstance(parameters, list)
        assert in_path == {p["name"] for p in parameters if p["in"] == "path"}, name
