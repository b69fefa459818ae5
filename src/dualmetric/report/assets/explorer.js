// The explorer: a query, its nearest rows before and after, and why they are near.
//
// data.rows       number of each row here, counted from 0; labels: its class
// data.names      what the user calls each row, if it is not "row" and its number
// data.queries    { row, precision: [before, after], before: [rows], after: [rows] }
// data.why        for each query, by row: { before, after }, each a list: the distance, then
//                 - the sum of the parts not listed, and pairs of a feature and its part, or
//                 - for pictures, the number of a picture in data.heat (128 is zero), or
//                 - nothing, where the distance does not split into features
// data.texts, data.pictures   what the first rows look like, if known

class Explorer {
  constructor(data, sheets, onChange) {
    Object.assign(this, { data, sheets, onChange });
    this.current = 0;
    this.listed = [];
    byId("search").addEventListener("input", () => this.list());
    byId("order").addEventListener("change", () => this.list());
    byId("query").addEventListener("change", (event) => this.show(Number(event.target.value)));
    byId("previous").addEventListener("click", () => this.step(-1));
    byId("next").addEventListener("click", () => this.step(1));
    byId("random").addEventListener("click", () => this.random());
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    for (const when of ["before", "after"]) {
      byId(when).classList.toggle("pictures", Boolean(data.pictures));
    }
    this.list();
    this.show(this.typical());
  }

  /** The query of median gain: a fair one to start with. */
  typical() {
    const byGain = [...this.listed].sort((a, b) => this.gain(a) - this.gain(b));
    return byGain[Math.floor(byGain.length / 2)];
  }

  name(row) {
    return nameOf(this.data, row);
  }

  /** The name of a row at the beginning of a line. */
  title(row) {
    return this.name(row).replace(/^row (?=\d+$)/, "Row ");
  }

  className(row) {
    return this.data.classes[this.data.labels[row]];
  }

  text(row) {
    return this.data.texts ? this.data.texts[row] : "";
  }

  gain(number) {
    const [before, after] = this.data.queries[number].precision;
    return after - before;
  }

  /** Fill the list of queries with those that match the search, in the order chosen. */
  list() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const order = byId("order").value;
    const all = this.data.queries.map((_, number) => number);
    this.listed = all.filter((number) => {
      const row = this.data.queries[number].row;
      const where = `${this.name(row)} ${this.className(row)} ${this.text(row)}`.toLowerCase();
      return words.every((word) => where.includes(word));
    });
    if (order === "gain") this.listed.sort((a, b) => this.gain(b) - this.gain(a));
    if (order === "loss") this.listed.sort((a, b) => this.gain(a) - this.gain(b));
    const options = this.listed.map((number) => {
      const row = this.data.queries[number].row;
      const text = this.text(row).slice(0, 60);
      const parts = [this.name(row), this.className(row), ...(text ? [text] : [])];
      return make("option", { value: String(number), textContent: parts.join(" · ") });
    });
    byId("query").replaceChildren(...options);
    byId("matches").textContent =
      this.listed.length === all.length ? `(${all.length})` : `(${this.listed.length} of ${all.length} match)`;
    for (const id of ["query", "previous", "next", "random"]) byId(id).disabled = !options.length;
    this.mark();
  }

  /** Let the list name the query that is shown, or none where the search leaves it out. */
  mark() {
    byId("query").selectedIndex = this.listed.indexOf(this.current);
  }

  step(by) {
    const place = this.listed.indexOf(this.current);
    const start = place < 0 && by < 0 ? 0 : place;
    this.show(this.listed[(start + by + this.listed.length) % this.listed.length]);
  }

  random() {
    const others = this.listed.filter((number) => number !== this.current);
    if (others.length) this.show(others[Math.floor(Math.random() * others.length)]);
  }

  show(number) {
    this.current = number;
    this.mark();
    const query = this.data.queries[number];
    this.showQuery(query);
    for (const when of ["before", "after"]) this.showNeighbors(query, when);
    byId("after").querySelector("button").click();
    this.onChange(number);
  }

  showQuery(query) {
    const [before, after] = query.precision;
    const content = make(
      "div",
      { className: "about" },
      make("p", { className: "name" },
        make("strong", { dir: "auto", textContent: this.title(query.row) }),
        make("span", { className: "tag", dir: "auto", textContent: this.className(query.row) })),
    );
    if (this.data.texts) {
      content.append(make("p", { className: "snippet", dir: "auto", textContent: this.text(query.row) }));
    }
    content.append(make("p", { className: "soft", textContent:
      `Average precision of this query: ${percent(before)} before, ${percent(after)} after` }));
    const card = byId("query-card");
    card.replaceChildren(content);
    byId("map-query").replaceChildren(
      make("strong", { dir: "auto", textContent: this.title(query.row) }),
      ` (${this.className(query.row)}): ${this.tally(query, "before")} before, `,
      `${this.tally(query, "after")} after. `,
      make("a", { href: "#explorer", textContent: "See it in the explorer" }));
    if (this.data.pictures) card.prepend(this.picture(query.row));
  }

  /** How many of the nearest rows have the query's class. */
  tally(query, when) {
    const label = this.data.labels[query.row];
    const right = query[when].filter((row) => this.data.labels[row] === label).length;
    return `${right} of ${query[when].length} right`;
  }

  showNeighbors(query, when) {
    const rows = query[when];
    byId(`tally-${when}`).textContent = this.tally(query, when);
    byId(when).replaceChildren(...rows.map((row, place) => this.neighbor(query, when, row, place)));
  }

  neighbor(query, when, row, place) {
    const right = this.data.labels[row] === this.data.labels[query.row];
    const button = make("button", { type: "button", className: "neighbor", "aria-expanded": "false" });
    const head = make("span", { className: "line" },
      make("span", { className: "rank", textContent: String(place + 1) }),
      make("span", { className: right ? "key right" : "key wrong", textContent: right ? "✓" : "✗",
        title: right ? "same class" : "other class" }),
      make("span", { className: "unseen", textContent: right ? "right: " : "wrong: " }),
      make("span", { className: "class", dir: "auto", textContent: this.className(row) }),
      make("span", { className: "move", textContent: this.move(query, when, row) }));
    if (this.data.pictures) button.append(this.picture(row));
    button.append(head);
    if (this.data.texts) {
      button.append(make("span", { className: "snippet", dir: "auto", textContent: this.text(row) }));
    } else if (!this.data.pictures) {
      head.insertBefore(make("span", { className: "row", textContent: this.name(row) }), head.lastChild);
    }
    const item = make("li", { className: right ? "right" : "wrong" }, button);
    button.addEventListener("click", () => this.toggle(item, button, query, row));
    return item;
  }

  /** Where the row is in the other list. */
  move(query, when, row) {
    const place = query[when === "before" ? "after" : "before"].indexOf(row) + 1;
    if (place) return when === "before" ? `now ${place}` : `was ${place}`;
    return when === "before" ? "gone" : "new";
  }

  /** Open the explanation of a neighbour below it, and close any other. */
  toggle(item, button, query, row) {
    const open = button.getAttribute("aria-expanded") === "true";
    document.querySelectorAll("#explorer .why").forEach((panel) => panel.remove());
    document
      .querySelectorAll("#explorer .neighbor[aria-expanded=true]")
      .forEach((other) => other.setAttribute("aria-expanded", "false"));
    if (open) return;
    button.setAttribute("aria-expanded", "true");
    item.after(this.why(query, row));
  }

  why(query, row) {
    const why = this.data.why[this.current][row];
    const title = `${this.title(query.row)} and ${this.name(row)}`;
    const panel = make("li", { className: "why" }, make("p", { className: "name" },
      make("strong", { textContent: title })));
    const groups = make("div", { className: "groups" });
    if (this.data.heat) {
      groups.append(this.pictured("Query", query.row), this.pictured("Neighbour", row));
    }
    for (const [when, name] of [["after", "Learned"], ["before", "Plain"]]) {
      groups.append(this.explanation(name, why[when]));
    }
    panel.append(groups, make("p", { className: "note ends" },
      make("span", { className: "end apart", textContent: "increases the distance" }),
      make("span", { className: "end together", textContent: "reduces it" })));
    return panel;
  }

  explanation(name, entry) {
    if (entry.length === 1) return this.unsplit(name, entry[0]);
    return this.data.heat ? this.heat(name, entry) : this.parts(name, entry);
  }

  /** A distance that no features add up to. */
  unsplit(name, distance) {
    const title = this.data.heat ? name : `${name} distance`;
    return make("div", { className: "group" }, this.heading(title, distance),
      make("p", { className: "soft", textContent:
        "This distance is not linear in the features, so it cannot be split by feature." }));
  }

  /** A distance as a list of features with bars. */
  parts(name, [distance, rest, ...pairs]) {
    const lines = [];
    for (let i = 0; i < pairs.length; i += 2) {
      lines.push([this.data.features[pairs[i]], pairs[i + 1]]);
    }
    const widest = Math.max(...lines.map(([, value]) => Math.abs(value)), 1e-300);
    const digits = Math.min(9, Math.max(0, 1 - Math.floor(Math.log10(widest))));
    const box = make("div", { className: "group" }, this.heading(`${name} distance`, distance));
    if (!lines.length) {
      box.append(make("p", { className: "soft", textContent: "These rows do not differ." }));
      return box;
    }
    const table = make("table", { className: "parts" });
    for (const [feature, value] of lines) {
      const bar = make("span", { className: value < 0 ? "together" : "apart" });
      bar.style.setProperty("--part", (Math.abs(value) / widest).toFixed(3));
      table.append(make("tr", {},
        make("th", { scope: "row", dir: "auto", textContent: feature }),
        make("td", { className: "track", "aria-hidden": "true" }, bar),
        make("td", { className: "number", textContent: signed(value, digits) })));
    }
    if (rest) {
      table.append(make("tr", { className: "soft" }, make("th", { scope: "row", textContent: "all others" }),
        make("td"), make("td", { className: "number", textContent: signed(rest, digits) })));
    }
    box.append(table);
    return box;
  }

  /** A distance as a picture of what each pixel adds to it. */
  heat(name, [distance, number]) {
    const label = `${name} distance: what each part of the picture adds to it`;
    return make("div", { className: "group" }, this.heading(name, distance),
      heatCanvas(this.sheets.heat, number, label));
  }

  heading(name, distance) {
    return make("h4", { textContent: `${name}: ${Number(distance.toPrecision(3))}` });
  }

  pictured(name, row) {
    return make("div", { className: "group" }, make("h4", { textContent: name }), this.picture(row));
  }

  picture(row) {
    const { image, width, height, columns } = this.sheets.pictures;
    const canvas = make("canvas", { width, height, className: "picture", role: "img",
      "aria-label": this.name(row) });
    const [x, y] = [(row % columns) * width, Math.floor(row / columns) * height];
    canvas.getContext("2d").drawImage(image, x, y, width, height, 0, 0, width, height);
    return canvas;
  }
}

function signed(value, digits) {
  return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
}

/** One picture of signed numbers: orange increases the distance, blue reduces it, clear is zero. */
function heatCanvas(sheet, number, label) {
  const { image, width, height, columns } = sheet;
  const canvas = make("canvas", { width, height, className: "picture heat", role: "img", "aria-label": label });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const [x, y] = [(number % columns) * width, Math.floor(number / columns) * height];
  pen.drawImage(image, x, y, width, height, 0, 0, width, height);
  const pixels = pen.getImageData(0, 0, width, height);
  for (let i = 0; i < pixels.data.length; i += 4) {
    const value = (pixels.data[i] - 128) / 127;
    pixels.data.set(value > 0 ? [217, 119, 6] : [59, 110, 224], i);
    pixels.data[i + 3] = Math.round(255 * Math.min(1, Math.abs(value)));
  }
  pen.putImageData(pixels, 0, 0);
  return canvas;
}
