// The page itself: light and dark, tables that sort, and what the other scripts build with.

/** Make an element; properties that are not the element's own become attributes. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);

/** What the user calls a row. */
const nameOf = (data, row) => (data.names ? data.names[row] : `row ${data.rows[row]}`);

/** 0.1234 as "12.3 %". */
const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;

const darkByDefault = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : darkByDefault.matches;
}

/** Let the button switch between light and dark; calls `redraw` whenever the theme changes. */
function startTheme(redraw) {
  const button = byId("theme");
  const show = () => {
    button.textContent = isDark() ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to light" : "Switch to dark");
    redraw();
  };
  try {
    const kept = localStorage.getItem("dualmetric-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // storage may be forbidden for files: the choice is then not kept
  }
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("dualmetric-theme", document.documentElement.dataset.theme);
    } catch {
      // as above
    }
    show();
  });
  darkByDefault.addEventListener("change", show);
  button.hidden = false;
  show();
}

/** Let the headings of a table sort it: names from A to Z first, numbers from the largest. */
function startSorting(table) {
  const headings = [...table.tHead.querySelectorAll("th")];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const first = column === 0 ? "ascending" : "descending";
      const second = column === 0 ? "descending" : "ascending";
      const order = heading.getAttribute("aria-sort") === first ? second : first;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [left, right] = [a.cells[column], b.cells[column]];
        const difference =
          column === 0
            ? left.textContent.localeCompare(right.textContent, undefined, { numeric: true })
            : Number(left.dataset.sort) - Number(right.dataset.sort);
        return sign * difference;
      });
      table.tBodies[0].append(...rows);
    });
  });
}
