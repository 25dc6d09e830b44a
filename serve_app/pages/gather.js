"use strict";
// Asks for the journals of a patient and shows the answers as they come.
// Whatever comes from the server is put in as text, never as markup.

const RESOURCES = ["resource-1", "resource-2", "resource-3"];
const EVENTS = ["callback", "rejected", "timeout", "error", "summary"];
const FIELDS = ["key", "patientId", "delays", "timeoutMs", "strategy"];
const TONES = {
  Listening: "busy", Completed: "good", Failed: "bad",
  ok: "good", REJECTED: "warm", TIMEOUT: "bad", CONNECTION_CLOSED: "bad", ERROR: "bad",
};
const LOG_LINES = 500;
// A stream that is refused for the moment is opened again, so often and after so many ms.
const REOPENINGS = 10;
const PAUSE = 1000;
const FOR_THE_MOMENT = new Set([429, 502, 503, 504]);

// The gather on show. What belongs to an earlier one is no longer looked at.
let current = null;

const at = (id) => document.getElementById(id);
const make = (tag, text, name) => {
  const node = document.createElement(tag);
  node.textContent = text;
  if (name) node.className = name;
  return node;
};
const badge = (text, tone = TONES[text]) => {
  const node = make("span", text, "badge");
  node.dataset.tone = tone ?? "quiet";
  return node;
};
const few = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

const writeLog = (name, data) => {
  const now = new Date();
  const clock = now.toTimeString().slice(0, 8);
  const line = make("li", "");
  const time = make("time", `${clock}.${String(now.getMilliseconds()).padStart(3, "0")}`);
  time.dateTime = now.toISOString();
  line.append(time, ` ${name} ${data}`);
  at("log").prepend(line);
  while (at("log").childElementCount > LOG_LINES) at("log").lastElementChild.remove();
};

const showStatus = (status, connection, ending = "") => {
  at("status").textContent = status;
  at("status").dataset.tone = TONES[status] ?? "quiet";
  at("connection").textContent = connection;
  at("ending").textContent = ending;
  at("start").disabled = status === "Listening";
  at("stop").disabled = status !== "Listening";
};

const resourceLine = (name, outcome, waiting) => {
  const line = make("li", "");
  const status = outcome?.status ?? (waiting ? "waiting" : "no answer");
  line.append(make("span", name, "name"), badge(status, waiting && !outcome ? "busy" : undefined));
  const about = [];
  if (outcome?.delayMs >= 0) about.push(`${outcome.delayMs} ms`);
  if (status === "ok") about.push(few(outcome.notes, "note"));
  if (outcome?.detail) about.push(outcome.detail);
  line.append(about.join(" · "));
  return line;
};

const noteLine = ({ source, note }) => {
  const line = make("li", "");
  const date = make("time", String(note.date ?? "").replace("T", " ").slice(0, 19));
  date.dateTime = note.date ?? "";
  line.append(badge(source), date, ` · ${note.doctorId ?? "?"} · ${note.caregiverId ?? "?"}`,
    make("p", note.note ?? ""));
  return line;
};

const show = (run) => {
  const names = [...new Set([...RESOURCES, ...run.outcomes.keys()])];
  const isRefused = run !== current && !run.correlationId;
  const { respondents, errors, received } = run.totals ?? countOf(run.outcomes);
  at("correlationId").textContent = run.correlationId ?? "–";
  at("respondents").textContent = respondents;
  at("errors").textContent = errors;
  at("received").textContent = `${received} of ${names.length} received`;
  at("progress").max = names.length;
  at("progress").value = received;
  at("resources").replaceChildren(...(isRefused ? [] : names).map((name) =>
    resourceLine(name, run.outcomes.get(name), run === current)));
  const newestFirst = run.notes.toSorted((a, b) =>
    String(b.note.date).localeCompare(String(a.note.date)));
  at("notes").replaceChildren(...newestFirst.map(noteLine));
  at("no-notes").hidden = newestFirst.length > 0;
};

const countOf = (outcomes) => {
  const all = [...outcomes.values()];
  return {
    received: all.length,
    respondents: all.filter((outcome) => outcome.event === "callback").length,
    errors: all.filter((outcome) => TONES[outcome.status] === "bad").length,
  };
};

// Ends the gather on show, whatever is still open of it.
const end = (run, status, ending) => {
  current = null;
  run.stream?.close();
  run.abort.abort();
  show(run);
  showStatus(status, "Closed", ending);
};

const faultLine = ({ field, expected, got }) => {
  const line = make("li", "");
  line.append(make("code", field), `: ${expected}`);
  if (got !== undefined) line.append(` (it was ${JSON.stringify(got)})`);
  return line;
};

// What stands between backticks is to be typed.
const sentence = (text) => {
  const node = make("p", "");
  node.append(...text.split("`").map((part, index) => index % 2 ? make("code", part) : part));
  return node;
};

const showProblem = (problem) => {
  const box = at("problem");
  box.replaceChildren(sentence(problem.detail));
  const faults = problem.errors ?? [];
  if (faults.length) {
    const list = make("ul", "");
    list.append(...faults.map(faultLine));
    box.append(list);
  }
  if (problem.requestId) box.append(make("small", `Request ${problem.requestId}`));
  box.hidden = false;
  markFields(problem);
};

// Marks the fields that the problem names, and goes to the first.
const markFields = (problem) => {
  const named = new Set((problem.errors ?? []).map(({ field }) => field.split(/[.[]/)[0]));
  if (problem.status === 401 || problem.status === 403) named.add("key");
  const wrong = FIELDS.filter((name) => named.has(name)).map(at);
  for (const field of wrong) field.setAttribute("aria-invalid", "true");
  wrong[0]?.focus();
};

const clearProblem = () => {
  at("problem").hidden = true;
  at("problem").replaceChildren();
  for (const name of FIELDS) at(name).removeAttribute("aria-invalid");
};

const wanted = () => {
  const body = {
    patientId: at("patientId").value,
    delays: at("delays").value,
    strategy: at("strategy").value,
  };
  const timeout = at("timeoutMs").valueAsNumber;
  return Number.isNaN(timeout) ? body : { ...body, timeoutMs: timeout };
};

// The answer, or why there is none.
const ask = async (body, signal) => {
  const reply = await fetch("aggregate/journals", {
    method: "POST",
    headers: {
      "Authorization": `Bearer ${at("key").value.trim()}`,
      "Content-Type": "application/json",
    },
    body: JSON.stringify(body),
    signal,
  });
  return reply.ok ? { answer: await reply.json() } : { problem: await problemOf(reply) };
};

// Something between here and Muster may refuse in words of its own.
const problemOf = async (reply) => {
  const detail = `the server answered ${reply.status} ${reply.statusText}`.trim();
  return { status: reply.status, detail, ...await reply.json().catch(() => null) };
};

const begin = (event) => {
  event.preventDefault();
  if (current) return;
  const run = { abort: new AbortController(), outcomes: new Map(), notes: [] };
  const body = wanted();
  current = run;
  clearProblem();
  show(run);
  showStatus("Listening", body.strategy === "SSE" ? "Connecting" : "One reply for all");
  writeLog("request", JSON.stringify(body));
  attempt(run, async () => {
    const { answer, problem } = await ask(body, run.abort.signal);
    if (run !== current) return;
    if (problem) refuse(run, problem);
    else if (answer.streamUrl) listen(run, answer);
    else takeAll(run, answer);
  });
};

const attempt = async (run, work) => {
  try {
    await work();
  } catch (error) {
    if (run === current) refuse(run, { detail: `Muster did not answer: ${error.message}` });
  }
};

const refuse = (run, problem) => {
  writeLog("problem", JSON.stringify(problem));
  end(run, "Failed");
  showProblem(problem);
};

const listen = (run, { streamUrl, ...answer }) => {
  // The token in the address opens the stream; a log is no place for it.
  writeLog("reply", JSON.stringify(answer));
  run.correlationId = answer.correlationId;
  show(run);
  // The server may know itself by another name than the one this page came from.
  const { pathname, search } = new URL(streamUrl, location);
  run.url = new URL(pathname + search, location);
  run.reopenings = 0;
  open(run);
};

const open = (run) => {
  run.stream = new EventSource(run.url);
  run.stream.onopen = () => {
    run.reopenings = 0;
    showStatus("Listening", "Open");
  };
  for (const name of EVENTS) {
    run.stream.addEventListener(name, (event) => {
      // A lost connection is an `error` too, but one without data.
      if (event.data === undefined) lost(run);
      else take(run, event);
    });
  }
};

const lost = (run) => {
  const isRefused = run.stream.readyState === EventSource.CLOSED;
  writeLog("connection", isRefused ? "refused" : "lost");
  showStatus("Listening", "Reconnecting");
  if (isRefused) attempt(run, () => comeBack(run));
};

// An EventSource that was refused stays closed, and does not tell why; the same request by hand
// does. What is refused for the moment only is asked for again, after the last that was seen.
const comeBack = async (run) => {
  const { problem, pause } = await explain(run);
  if (run !== current) return;
  run.reopenings += 1;
  if (problem || run.reopenings > REOPENINGS) {
    refuse(run, problem ?? { detail: "the stream was refused again and again" });
    return;
  }
  setTimeout(() => { if (run === current) open(run); }, pause);
};

const explain = async (run) => {
  const asking = new AbortController();
  run.abort.signal.addEventListener("abort", () => asking.abort());
  try {
    const reply = await fetch(run.url, { signal: asking.signal });
    if (!reply.ok && !FOR_THE_MOMENT.has(reply.status)) return { problem: await problemOf(reply) };
    const seconds = Number(reply.headers.get("Retry-After") ?? 0);
    return { pause: Math.min(Math.max(seconds * 1000, PAUSE), 10 * PAUSE) || PAUSE };
  } catch {
    // No connection at all.
    return { pause: PAUSE };
  } finally {
    // It may be open by now: one reader is enough.
    asking.abort();
  }
};

const take = (run, event) => {
  const data = JSON.parse(event.data);
  writeLog(`${event.type} #${event.lastEventId}`, event.data);
  run.url.searchParams.set("lastEventId", event.lastEventId);
  if (event.type === "summary") {
    finish(run, data);
    return;
  }
  const { source, status, delayMs, detail } = data;
  const notes = data.notes ?? [];
  run.outcomes.set(source, { event: event.type, status, delayMs, detail, notes: notes.length });
  run.notes.push(...notes.map((note) => ({ source, note })));
  show(run);
};

const takeAll = (run, answer) => {
  writeLog("reply", JSON.stringify(answer));
  run.correlationId = answer.correlationId;
  run.outcomes = new Map(Object.entries(answer.resources));
  run.notes = answer.notes.map((note) => ({ source: sourceOf(note), note }));
  finish(run, answer);
};

// One reply for all names the source of a note only within its caregiver.
const sourceOf = (note) => String(note.caregiverId ?? "?").replace(/^Caregiver-/, "");

const finish = (run, totals) => {
  run.totals = totals;
  if (totals.status === "COMPLETE") end(run, "Completed", totals.completeness);
  else end(run, "Failed", totals.status.toLowerCase());
};

const stop = () => {
  if (!current) return;
  writeLog("stop", "nobody listens any more; the gather is cancelled after its grace");
  end(current, "Idle", "stopped");
};

// The key of a link `gather#key=…`: a fragment is never sent, and must not stay on show.
const takeKey = () => {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  at("key").value = given;
};

takeKey();
addEventListener("hashchange", takeKey);
at("form").addEventListener("submit", begin);
at("stop").addEventListener("click", stop);
