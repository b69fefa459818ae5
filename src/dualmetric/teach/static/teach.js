// The page: asks the server, draws the answer, and listens to clicks and keys.

import * as view from "./view.js";

const token = new URLSearchParams(location.search).get("token") ?? "";
const $ = (id) => document.getElementById(id);
const CONTRADICTS = "This contradicts earlier judgements: it is kept and counted, but nothing is learned " +
  "from it. Undo takes it back.";
let state = null;
let selected = null; // "column/row"
let busy = false;

async function request(path, body) {
  const options = { headers: { "X-Token": token } };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, options).catch(() => {
    throw new Error("The server does not answer: is it still running?");
  });
  const given = await answer.json();
  if (!answer.ok) throw new Error(given.error ?? answer.statusText);
  return given;
}

function say(text, isError = false) {
  $("message").textContent = text;
  $("message").className = isError ? "error" : "";
}

async function act(name, body, done = "") {
  if (busy) return;
  busy = true;
  const began = performance.now();
  try {
    const before = state;
    const given = await request(`/api/${name}`, body);
    const elsewhere = name === "judge" && given.version > before.version + 1;
    const contradicts = name === "judge" && given.contradictions > before.contradictions;
    draw(given);
    say(elsewhere ? "Also changed in another window." : contradicts ? CONTRADICTS : done);
    document.documentElement.dataset.took = String(performance.now() - began);
    if ($("learned").open) await showLearned();
  } catch (error) {
    say(error.message, true);
  } finally {
    busy = false;
    document.documentElement.dataset.acts = String(1 + Number(document.documentElement.dataset.acts ?? 0));
  }
}

function draw(given) {
  const sameQuery = state?.query === given.query;
  state = given;
  if (state.title) {
    $("title").textContent = state.title;
    document.title = state.title;
  }
  $("query-heading").textContent = `Query: row ${state.query}`;
  $("query").replaceChildren(view.content(state, state.query, token));
  if (!sameQuery) $("lists").replaceChildren();
  view.lists($("lists"), state, token, mark);
  $("verdict").textContent = state.meter.text;
  view.meter($("bars"), state.meter);
  const contradictions = state.contradictions ? `, ${state.contradictions} contradictory` : "";
  $("counts").textContent = `${state.judgements} judgements${contradictions}; ` +
    `${state.comparisons} comparisons learned from; ${state.unsaved} changes not saved yet.`;
  $("undo").disabled = state.judgements === 0;
  $("save").disabled = !state.can_save;
  if (!sameQuery) selected = null;
  select(selected);
}

function mark(row, right) {
  const left = (state.asked?.rows ?? []).filter((one) => state.marks[one] === undefined);
  const isLast = left.length === 1 && left[0] === row;
  return act("judge", { query: state.query, row, right },
    `Row ${row} should be ${right ? "closer" : "farther"}.${isLast ? " All rows are judged: go to the next question." : ""}`);
}

function rows() {
  return [...document.querySelectorAll("#lists .row")];
}

function select(name, focus = false) {
  const all = rows();
  let found = all.find((entry) => `${entry.dataset.column}/${entry.dataset.row}` === name);
  found ??= all[0];
  for (const entry of all) entry.classList.toggle("selected", entry === found);
  selected = found ? `${found.dataset.column}/${found.dataset.row}` : null;
  if (found && focus) {
    found.focus({ preventScroll: true });
    // where it will be, not where it moves from
    Promise.allSettled(found.getAnimations().map((one) => one.finished))
      .then(() => found.scrollIntoView({ block: "nearest" }));
  }
  return found;
}

function step(by) {
  const all = rows();
  const at = all.findIndex((entry) => entry.classList.contains("selected"));
  const entry = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  if (entry) select(`${entry.dataset.column}/${entry.dataset.row}`, true);
}

async function markSelected(right) {
  const entry = select(selected);
  if (!entry) return;
  const column = entry.dataset.column;
  const following = entry.nextElementSibling?.dataset.row;
  await mark(Number(entry.dataset.row), right);
  if (column === "asked" && following !== undefined) {
    const open = rows().filter((other) => other.dataset.column === "asked"
      && !other.classList.contains("right") && !other.classList.contains("wrong"));
    if (open.length) select(`asked/${open[0].dataset.row}`, true);
  }
}

async function showLearned() {
  view.learned($("learned-body"), await request("/api/learned", {}));
  $("learned").dataset.ready = "yes";
}

const next = () => act("next", {}, "Which of these are closer to the query, and which farther?");
const undo = () => act("undo", {}, "The last judgement was taken back.");
const save = () => act("save", {}, "The metric was saved.");
const KEYS = {
  ArrowDown: () => step(1), ArrowUp: () => step(-1), j: () => step(1), k: () => step(-1),
  c: () => markSelected(true), f: () => markSelected(false), u: undo, n: next, s: save,
  "/": () => $("find").focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === $("find")) {
    if (event.key === "Escape") $("find").blur();
    return;
  }
  const does = KEYS[event.key];
  if (does) {
    event.preventDefault();
    does();
  }
});
$("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  await act("next", { find: $("find").value });
  $("find").blur();
});
$("next").addEventListener("click", next);
$("undo").addEventListener("click", undo);
$("save").addEventListener("click", save);
$("learned").addEventListener("toggle", () => {
  if ($("learned").open) showLearned().catch((error) => say(error.message, true));
});
$("lists").addEventListener("focusin", (event) => {
  const entry = event.target.closest(".row");
  if (entry) select(`${entry.dataset.column}/${entry.dataset.row}`);
});

request("/api/state").then((given) => {
  draw(given);
  const start = "Click “Next question” to get a query and rows to judge. Or judge the nearest rows of any query.";
  if (given.notes.length || !given.judgements) say(given.notes.join(" ") || start);
}, (error) => say(error.message, true))
  .finally(() => { document.documentElement.dataset.ready = "yes"; });
