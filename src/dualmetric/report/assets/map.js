// The maps: dots of many colours, the query with lines to its nearest rows.

const FEW_COLOURS = [
  "#4e79a7", "#f28e2b", "#d6453d", "#3fa7a0", "#59a14f",
  "#c9a227", "#a05fa3", "#e8749a", "#9c755f", "#7f8a99",
];

/** Colour of a class: some that differ well, and for many classes hues far from each other. */
function classColour(code, nClasses) {
  if (nClasses <= FEW_COLOURS.length) return FEW_COLOURS[code];
  const lightness = (isDark() ? [66, 54, 78] : [46, 60, 34])[code % 3];
  return `hsl(${(code * 137.508) % 360} 62% ${lightness}%)`;
}

/** Lowest and highest place on either map: they are as high as the rows need, of at most 1000. */
function heights(data) {
  const all = [...data.map.before, ...data.map.after].filter((_, i) => i % 2);
  return all.reduce(
    ([least, most], y) => [Math.min(least, y), Math.max(most, y)],
    [400, 600],
  );
}

/** One map. `state` is shared by both: { query, only }, the query shown and the class singled out. */
class RowMap {
  constructor(canvas, when, data, state, choose) {
    Object.assign(this, { canvas, when, data, state, choose });
    this.tip = canvas.nextElementSibling;
    this.places = data.map[when];
    [this.low, this.high] = heights(data);
    canvas.style.aspectRatio = String(1000 / (this.high - this.low + 30));
    this.explorable = new Map(data.queries.map((query, number) => [query.row, number]));
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    canvas.addEventListener("click", (event) => {
      const row = this.nearest(event, this.explorable.keys(), 28);
      if (row !== null) this.choose(this.explorable.get(row));
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** Where a row is on the canvas, in CSS pixels. */
  at(row) {
    const margin = 10;
    const scale = (this.canvas.clientWidth - 2 * margin) / 1000;
    return [
      margin + this.places[2 * row] * scale,
      margin + (this.high - this.places[2 * row + 1]) * scale,
    ];
  }

  nearest(event, rows, reach) {
    const box = this.canvas.getBoundingClientRect();
    let found = null;
    let best = reach ** 2;
    for (const row of rows) {
      if (this.state.only !== null && this.data.labels[row] !== this.state.only) continue;
      const [x, y] = this.at(row);
      const distance = (x - event.clientX + box.left) ** 2 + (y - event.clientY + box.top) ** 2;
      if (distance < best) [found, best] = [row, distance];
    }
    return found;
  }

  hover(event) {
    const row = this.nearest(event, this.data.onMap, 12);
    this.tip.hidden = row === null;
    this.canvas.style.cursor = row === null ? "" : "pointer";
    if (row === null) return;
    const [x, y] = this.at(row);
    this.tip.textContent = `${nameOf(this.data, row)} · ${this.data.classes[this.data.labels[row]]}`;
    this.tip.classList.toggle("left", x > this.canvas.clientWidth / 2);
    this.tip.style.left = `${x}px`;
    this.tip.style.top = `${y}px`;
  }

  draw() {
    const { canvas, data, state } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const colours = data.classes.map((_, code) => classColour(code, data.classes.length));
    const ink = getComputedStyle(canvas).color;
    const size = Math.min(1, Math.max(0.7, width / 500)); // smaller dots on a phone
    // the class singled out is drawn last, over the others
    const dots = [...data.onMap].sort((a, b) => this.stands(a) - this.stands(b));
    for (const row of dots) {
      const [x, y] = this.at(row);
      const faint = state.only !== null && data.labels[row] !== state.only;
      const large = this.explorable.has(row) && !faint;
      pen.globalAlpha = faint ? 0.1 : large ? 1 : 0.55;
      pen.fillStyle = colours[data.labels[row]];
      pen.beginPath();
      pen.arc(x, y, size * (large ? 3.6 : 2.2), 0, 2 * Math.PI);
      pen.fill();
      if (large) {
        pen.globalAlpha = 0.75;
        pen.strokeStyle = ink;
        pen.lineWidth = 0.8;
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    if (state.query !== null) this.drawQuery(pen, data.queries[state.query], ink, colours);
  }

  stands(row) {
    return this.state.only !== null && this.data.labels[row] === this.state.only ? 1 : 0;
  }

  /** The query as a diamond, with lines to its nearest rows: dashed ones to those of other classes. */
  drawQuery(pen, query, ink, colours) {
    const [x, y] = this.at(query.row);
    const label = this.data.labels[query.row];
    pen.strokeStyle = ink;
    for (const row of query[this.when]) {
      const right = this.data.labels[row] === label;
      const [nx, ny] = this.at(row);
      pen.lineWidth = 1.3;
      pen.setLineDash(right ? [] : [3, 3]);
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(nx, ny);
      pen.stroke();
      pen.setLineDash([]);
      pen.fillStyle = colours[this.data.labels[row]];
      pen.beginPath();
      pen.arc(nx, ny, 4.5, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
    }
    pen.fillStyle = colours[label];
    pen.lineWidth = 2.2;
    pen.beginPath();
    pen.moveTo(x, y - 9);
    pen.lineTo(x + 9, y);
    pen.lineTo(x, y + 9);
    pen.lineTo(x - 9, y);
    pen.closePath();
    pen.fill();
    pen.stroke();
  }
}

/** A button for each class, which singles it out on the maps; returns what recolours them. */
function startChips(box, data, state, redraw) {
  const chips = data.classes.map((name, code) => {
    const chip = make("button", { type: "button", className: "chip", "aria-pressed": "false" });
    chip.append(make("span", { className: "dot" }), make("span", { textContent: name, dir: "auto" }));
    chip.addEventListener("click", () => {
      state.only = state.only === code ? null : code;
      chips.forEach((other, number) =>
        other.setAttribute("aria-pressed", String(number === state.only)),
      );
      redraw();
    });
    return chip;
  });
  box.append(...chips);
  return () =>
    chips.forEach((chip, code) =>
      chip.firstChild.style.setProperty("background", classColour(code, chips.length)),
    );
}
