"""The OpenAPI document: what routes declare, and what holds for all routes."""

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from serve_app.http.permissions import Requires, RequiresOrToken
from serve_app.http.problems import MEDIA_TYPE, ProblemView
from serve_app.http.sse import MEDIA_TYPE as EVENTS

_PAGE = re.compile(r"\b(?:Counted)?Page_(\w+?)(?:View)?_(?=\W)")
_REF = "#/components/schemas/{model}"
# Models that `ref` was called with; FastAPI does not know them.
_referred: set[type[BaseModel]] = set()
# Statuses of every route, and those of every route with a permission.
_ALWAYS = (429, 500, 503)
_WITH_KEY = (401, 403)
_WITH_BODY = (400, 408, 413, 415, 422)
# Statuses of routes that store something: a quota may be used up.
_STORING = (507,)
_SCHEMES = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key: mk_<prefix>_<secret>.",
    },
    "callbackToken": {
        "type": "apiKey",
        "in": "query",
        "name": "token",
        "description": "The token of a callback or stream URL; stands for one correlation.",
    },
    "callbackTokenHeader": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Callback-Token",
        "description": "The same, where an address is logged and a header is not.",
    },
}


def describe_responses(
    answers: Mapping[int, type[BaseModel]], *problems: int
) -> dict[int | str, Any]:
    """Describe a route's responses: models by status, and the problems specific to the route.

    Of several models of one status, the first describes it.
    """
    success: dict[int | str, Any] = {
        status: {"model": model, "description": inspect.getdoc((*get_args(model), model)[0]) or ""}
        for status, model in answers.items()
    }
    return success | {status: _problem(status) for status in problems}


def describe_stream(description: str, data: dict[str, Any]) -> dict[int | str, Any]:
    """Describe the responses of an event stream; `data` is the schema of the JSON in each event."""
    event = {
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "description": "Its number in the log."},
            "event": {"type": "string", "description": "Its type."},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": data,
            },
        },
    }
    return {
        200: {"description": description, "content": {EVENTS: {"itemSchema": event}}},
        204: {"description": "Nothing more will come after the given id."},
        **describe_responses({}, 404),
    }


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": _json({"$ref": ref(model)})}}


def any_json_body(description: str) -> dict[str, Any]:
    content = _json({"description": description})
    return {"requestBody": {"required": False, "content": content}}


def parameter(place: str, name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": {"type": "string", **schema},
    }


def build(app: FastAPI, routes: Iterable[APIRoute]) -> dict[str, Any]:
    document: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    text = json.dumps(document)
    used = {model for model in _referred if f'"{ref(model)}"' in text} | {ProblemView}
    for model in sorted(used, key=lambda model: model.__name__):
        _, definitions = models_json_schema([(model, "validation")], ref_template=_REF)
        schemas |= definitions["$defs"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    document["components"]["securitySchemes"] = _SCHEMES
    for route in routes:
        for method in route.methods or ():
            _complete(document["paths"][route.path_format][method.lower()], route)
    return _name_pages(document)


def _name_pages(document: dict[str, Any]) -> dict[str, Any]:
    """Rename the schemas of pages: Page_PoolView_ becomes PoolPage."""
    named: dict[str, Any] = json.loads(_PAGE.sub(r"\1Page", json.dumps(document)))
    return named


def requirement_of(route: APIRoute) -> Requires | None:
    """Return the permission that a route requires; None if the route is public."""
    permits = [d.dependency for d in route.dependencies if isinstance(d.dependency, Requires)]
    return permits[0] if permits else None


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    permit = requirement_of(route)
    # FastAPI describes a 422 that has another form than the problems here.
    operation["responses"].pop("422", None)
    statuses = [*_ALWAYS]
    if permit is not None:
        statuses += _WITH_KEY
        operation["security"] = [{"apiKey": []}]
        if isinstance(permit, RequiresOrToken):
            operation["security"] += [{"callbackToken": []}, {"callbackTokenHeader": []}]
        operation["x-permission"] = permit.permission.value
        if permit.stores and "POST" in (route.methods or ()):
            statuses += _STORING
    if "requestBody" in operation:
        statuses += _WITH_BODY
    elif operation.get("parameters"):
        statuses.append(422)
    for status in statuses:
        operation["responses"].setdefault(str(status), _problem(status))


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": ref(ProblemView)}}},
    }


def ref(model: type[BaseModel]) -> str:
    """Return the reference to a model, and add the model to the document's schemas."""
    _referred.add(model)
    return _REF.format(model=model.__name__)


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
