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
