"""The page at /docs. FastAPI's own loads its scripts from the internet; this one stands alone."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Muster HTTP API</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; text-transform: capitalize; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: 0 .8rem; }
summary { cursor: pointer; padding: .5rem 0; display: flex; gap: .8rem; align-items: baseline; }
summary .method { font-weight: 700; min-width: 4rem; }
summary .about { margin-left: auto; opacity: .7; text-align: right; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); border-radius: 6px; padding: .7rem; overflow: auto; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
td, th { border-bottom: 1px solid var(--line); padding: .25rem .5rem .25rem 0; text-align: left;
  vertical-align: top; }
.permission { border: 1px solid var(--line); border-radius: 4px; padding: 0 .4rem; }
</style>
</head>
<body>
<h1>Muster HTTP API</h1>
<p id="about">Loading <a href="openapi.json">openapi.json</a>…</p>
<main></main>
<script>
"use strict";
const make = (tag, text, ...children) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children.filter(Boolean));
  return node;
};
const withClass = (node, name) => { node.className = name; return node; };
const nameOf = (ref) => ref.split("/").pop();

// An example of a schema: what a request or an answer looks like.
const sample = (schema, schemas, depth = 0) => {
  if (!schema || depth > 6) return null;
  if (schema.$ref) return sample(schemas[nameOf(schema.$ref)], schemas, depth + 1);
  if (schema.examples) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum.join(" | ");
  const choice = (schema.anyOf || schema.oneOf || schema.allOf || [])[0];
  if (choice) return sample(choice, schemas, depth + 1);
  if (schema.type === "array") return [sample(schema.items, schemas, depth + 1)];
  if (schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties).map(
      ([name, part]) => [name, sample(part, schemas, depth + 1)]));
  }
  return { integer: 0, number: 0, boolean: true, object: {} }[schema.type] ??
    (schema.format || schema.type || "any JSON");
};
const shown = (content, schemas) => Object.entries(content || {}).map(([type, body]) => {
  const value = sample(body.schema, schemas);
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return make("div", "", make("small", type), make("pre", text));
});
const parameters = (list) => list.length && make("table", "", make("tbody", "", ...list.map((p) =>
  make("tr", "", make("td", "", make("code", p.name)), make("td", p.in),
    make("td", p.description || p.schema?.description || "")))));
const answers = (responses, schemas) => make("table", "", make("tbody", "",
  ...Object.entries(responses).map(([status, response]) => make("tr", "",
    make("td", "", make("code", status)),
    make("td", response.description, ...(status < 300 ? shown(response.content, schemas) : []))))));

const operation = (path, method, op, schemas) => {
  const head = make("summary", "", withClass(make("span", method.toUpperCase()), "method"),
    make("code", path), withClass(make("span", op.summary), "about"));
  const body = make("div", "", make("p", op.description),
    make("p", "", op["x-permission"]
      ? withClass(make("code", op["x-permission"]), "permission") : make("em", "public")));
  const list = parameters(op.parameters || []);
  if (list) body.append(make("h4", "Parameters"), list);
  if (op.requestBody) {
    body.append(make("h4", "Body"), ...shown(op.requestBody.content, schemas));
  }
  body.append(make("h4", "Answers"), answers(op.responses, schemas));
  return make("details", "", head, body);
};
const render = (doc) => {
  const about = document.getElementById("about");
  about.textContent = `${doc.info.description || ""} Version ${doc.info.version}. `;
  const link = make("a", "openapi.json");
  link.href = "openapi.json";
  about.append(link);
  const groups = new Map();
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(methods)) {
      const tag = (op.tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(path, method, op, doc.components.schemas));
    }
  }
  for (const [tag, list] of groups) {
    document.querySelector("main").append(make("h2", tag), ...list);
  }
};
fetch("openapi.json").then((reply) => reply.json()).then(render).catch((error) => {
  document.getElementById("about").textContent = `openapi.json could not be shown: ${error}`;
});
</script>
</body>
</html>
"""
