// Put the parts together, once the pictures are decoded.

/** Load the sheets of pictures that the data name. */
async function loadSheets(data) {
  const sheets = {};
  for (const name of ["pictures", "heat", "directions"]) {
    if (!data[name]) continue;
    const image = new Image();
    image.src = data[name].src;
    await image.decode();
    sheets[name] = { ...data[name], image };
  }
  return sheets;
}

function showDirections(box, sheet) {
  const { image, width, height, columns } = sheet;
  const count = Math.min(columns, Math.round(image.width / width)) * Math.round(image.height / height);
  const strip = make("div", { className: "strip" });
  for (let number = 0; number < count; number += 1) {
    strip.append(heatCanvas(sheet, number, `Weights of the pixels in direction ${number + 1}`));
  }
  box.append(make("p", { className: "note", textContent:
    "Weights of the pixels in the strongest directions:" }), strip);
}

async function start() {
  const data = JSON.parse(byId("report-data").textContent);
  const state = { query: null, only: null };
  const maps = [];
  let recolour = () => {};
  const redraw = () => {
    recolour();
    maps.forEach((map) => map.draw());
  };
  startTheme(redraw);
  document.querySelectorAll("table.classes").forEach(startSorting);
  const sheets = await loadSheets(data);
  if (sheets.directions) showDirections(byId("directions"), sheets.directions);
  const explorer = new Explorer(data, sheets, (number) => {
    state.query = number;
    redraw();
  });
  const choose = (number) => explorer.show(number);
  for (const when of ["before", "after"]) {
    maps.push(new RowMap(byId(`map-${when}`), when, data, state, choose));
  }
  recolour = startChips(byId("chips"), data, state, redraw);
  redraw();
  document.documentElement.dataset.ready = "yes";
}

start();
