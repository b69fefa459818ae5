// Draws what the server sends. Everything from the user's data becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";
const MOVE_MS = 350;

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function content(state, row, token) {
  const shown = state.content[row];
  if (state.kind === "image") {
    const source = `/image/${row}?token=${encodeURIComponent(token)}`;
    const picture = element("img", { class: "picture", alt: String(shown), src: source });
    picture.addEventListener("error", () =>
      picture.replaceWith(element("p", { class: "missing" }, "picture is missing")));
    return picture;
  }
  if (state.kind === "table") {
    const lines = shown.map(([name, value]) =>
      element("tr", {}, element("td", {}, name), element("td", {}, value)));
    return element("table", {}, element("tbody", {}, ...lines));
  }
  return element("p", { class: "text" }, shown);
}

function moved(row, place, before) {
  const old = before.indexOf(row);
  if (old < 0) return element("span", { class: "moved-up" }, "new");
  if (old === place) return element("span", {}, "same place");
  const way = old > place ? ["moved-up", `▲ ${old - place}`] : ["moved-down", `▼ ${place - old}`];
  return element("span", { class: way[0] }, way[1]);
}

function item(state, column, row, place, token, mark) {
  const judged = state.marks[row];
  const kind = judged === undefined ? "" : judged ? " right" : " wrong";
  const head = element("div", { class: "head" },
    element("span", {}, `${place + 1}.`), element("span", {}, `row ${row}`));
  if (column.name === "now") head.append(moved(row, place, state.columns[1].rows));
  const entry = element("li", { class: `row${kind}`, "data-row": row, "data-column": column.name,
    tabindex: "-1" }, head, content(state, row, token));
  const buttons = element("div", { class: "marks" });
  for (const [name, right] of [["closer", true], ["farther", false]]) {
    buttons.append(element("button", { type: "button", class: name,
      "aria-pressed": String(judged === right), "aria-label": `row ${row}: ${name}`,
      onclick: () => mark(row, right) }, name));
  }
  entry.append(buttons);
  return entry;
}

const TITLES = { now: "Nearest now (taught)", before: "Nearest before (plain)" };

export function lists(place, state, token, mark) {
  const old = new Map();
  for (const entry of place.querySelectorAll(".row"))
    old.set(entry.dataset.column + entry.dataset.row, entry.getBoundingClientRect());
  const columns = [...state.columns];
  if (state.asked) {
    const why = state.asked.kind === "random" ? "Please judge (drawn at random)" : "Please judge";
    columns.unshift({ name: "asked", title: why, rows: state.asked.rows });
  }
  place.replaceChildren(...columns.map((column) => element("section", { "data-list": column.name },
    element("h2", {}, column.title ?? TITLES[column.name] ?? column.name),
    element("ol", {}, ...column.rows.map((row, k) => item(state, column, row, k, token, mark))))));
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  for (const entry of place.querySelectorAll(".row")) {
    const from = old.get(entry.dataset.column + entry.dataset.row);
    if (still) continue;
    const to = entry.getBoundingClientRect();
    if (!from) {
      if (old.size) entry.animate([{ opacity: 0 }, { opacity: 1 }], MOVE_MS);
    } else if (from.top !== to.top || from.left !== to.left) {
      entry.animate([
        { transform: `translate(${from.left - to.left}px, ${from.top - to.top}px)` },
        { transform: "none" },
      ], { duration: MOVE_MS, easing: "ease-out" });
    }
  }
}

export function meter(place, reading) {
  place.replaceChildren();
  for (const name of ["plain", "taught"]) {
    if (reading[name] === null) continue;
    const [low, high] = reading[`${name}_interval`];
    const percent = (value) => `${(100 * value).toFixed(0)} %`;
    const drawn = shape("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img" });
    drawn.append(shape("rect", { class: "ground", x: 0, y: 0, width: 100, height: 10 }),
      shape("rect", { class: `bar ${name}`, x: 0, y: 2, width: 100 * reading[name], height: 6 }),
      shape("line", { class: "whisker", x1: 100 * low, x2: 100 * high, y1: 5, y2: 5,
        "vector-effect": "non-scaling-stroke" }));
    const words = `${name}: ${percent(reading[name])} of comparisons correct (${percent(low)} to ${percent(high)})`;
    drawn.setAttribute("aria-label", words);
    place.append(element("span", { class: "name" }, words), drawn);
  }
}

export function learned(place, found) {
  const features = found.features.map(([name, change]) => element("tr", {},
    element("td", {}, name), element("td", {}, `${change > 0 ? "+" : "−"}${Math.abs(change)}`)));
  const table = features.length
    ? element("table", {}, element("tbody", {}, ...features))
    : element("p", {}, "Nothing yet: mark rows that are closer and rows that are farther.");
  const part = element("div", {}, element("h2", {}, "Features that gained or lost weight"),
    element("p", { class: "soft" }, "+0.5: weight increased by half; −0.5: weight halved"), table);
  const maps = ["before", "now"].map((when) => {
    const drawn = shape("svg", { class: "map", viewBox: "-20 -20 1040 1040", role: "img",
      "aria-label": `map of ${found.map.rows.length} rows, ${when}` });
    found.map[when].forEach(([x, y], k) => {
      const group = found.map.group[k];
      drawn.append(shape("circle", { class: group < 0 ? "dot" : `dot g${group}`, cx: x, cy: y,
        r: group < 0 ? 6 : 12 }));
    });
    return element("div", {}, element("h2", {}, `Map ${when}`), drawn);
  });
  place.replaceChildren(part, ...maps);
}
