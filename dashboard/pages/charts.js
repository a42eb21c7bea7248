// Line charts on Chart.js, in the theme's colors, usable with keyboard and screen reader.
import {duration, plain, round} from "./format.js";

const kColours = 8;
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const colour = (index) => style(`--c${index % kColours}`);

const kDashes = [[], [6, 4], [2, 3], [10, 3, 2, 3]];

// Chart.js steps from the first value and adds the last one, whose label may overlap another.
function roundTicks(scale) {
  if (scale.ticks.length < 3) return;
  const step = Number((scale.ticks[1].value - scale.ticks[0].value).toPrecision(6));
  scale.ticks = [];
  for (let k = Math.ceil(scale.min / step); k * step <= scale.max; ++k) scale.ticks.push({value: k * step});
}

export class LineChart {
  // `format` formats a value. `logarithmic`: the values span decades.
  constructor(holder, title, {format = plain, logarithmic = false, least, most}) {
    this.title = title;
    this.format = format;
    this.axis = "seconds";
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    holder.append(this.canvas);
    this.chart = new Chart(this.canvas, {
      type: "line",
      data: {datasets: []},
      options: {
        animation: false, parsing: false, normalized: true, maintainAspectRatio: false, spanGaps: true,
        interaction: {mode: "nearest", axis: "x", intersect: false},
        elements: {point: {radius: 0, hitRadius: 8}, line: {borderWidth: 1.8, tension: 0}},
        scales: {
          x: {type: "linear", bounds: "data", ticks: {maxTicksLimit: 7, maxRotation: 0, callback: (v) => this.place(v)}, grid: {},
              afterBuildTicks: roundTicks},
          y: {type: logarithmic ? "logarithmic" : "linear", grid: {}, min: least, max: most,
              ticks: {maxTicksLimit: 6, callback: (v) => this.tick(v, logarithmic)}},
        },
        plugins: {
          // One legend entry per run: its other lines have the same color and differ by their
          // dashes.
          legend: {labels: {boxWidth: 22, boxHeight: 1,
                            filter: (item, {datasets}) => datasets[item.datasetIndex].psgdLegend !== "",
                            generateLabels: (chart) => Chart.defaults.plugins.legend.labels.generateLabels(chart)
                              .map((item) => ({...item, text: chart.data.datasets[item.datasetIndex].psgdLegend ?? item.text}))}},
          tooltip: {callbacks: {
            title: (items) => (items.length ? this.place(items[0].parsed.x) : ""),
            label: (item) => `${item.dataset.label}: ${this.format(item.parsed.y)}`,
          }},
          decimation: {enabled: true, algorithm: "lttb", samples: 400, threshold: 800},
        },
      },
    });
    this.canvas.addEventListener("keydown", (event) => this.step(event));
    this.canvas.addEventListener("blur", () => { this.index = undefined; });
    this.recolour();
  }

  place(x) { return this.axis === "epoch" ? `epoch ${plain(x, 3)}` : duration(x); }

  tick(value, logarithmic) {
    // Labels only the 1 and 3 of each decade.
    const mantissa = value / 10 ** Math.floor(Math.log10(value) + 1e-9);
    const crowded = logarithmic && Math.abs(mantissa - Math.round(mantissa)) < 1e-6 && ![1, 3].includes(Math.round(mantissa));
    return crowded ? "" : round(this.format(value));
  }

  recolour() {
    const {options, data} = this.chart;
    for (const scale of Object.values(options.scales)) {
      scale.grid.color = style("--line");
      scale.ticks.color = style("--soft");
    }
    options.plugins.legend.labels.color = style("--ink");
    for (const set of data.datasets) set.borderColor = set.backgroundColor = colour(set.psgdColour);
    this.chart.update("none");
  }

  // Each of `lines` is {label, points, colour, dash}.
  show(lines, axis) {
    this.axis = axis;
    const sets = this.chart.data.datasets;
    sets.length = lines.length;
    lines.forEach((line, i) => {
      sets[i] ??= {};
      const few = line.points.length < 3;
      Object.assign(sets[i], {
        label: line.label, data: line.points, psgdColour: line.colour, psgdLegend: line.legend, pointRadius: few ? 3 : 0,
        borderColor: colour(line.colour), backgroundColor: colour(line.colour), borderDash: kDashes[line.dash ?? 0],
        borderWidth: lines.length > 12 ? 1 : 1.8,
      });
    });
    const named = lines.filter((line) => line.legend !== "").length;
    this.chart.options.plugins.legend.display = named > 1 && named <= 12;
    // A screen reader must not lose the value that the keyboard has selected.
    if (this.index === undefined) this.name(`${this.title}: ${this.words()}`);
    this.chart.update("none");
  }

  // For readers who cannot see the chart.
  name(text) { this.canvas.setAttribute("aria-label", text); }

  // The last values of the lines, for readers who cannot see them.
  words() {
    const said = this.chart.data.datasets.filter((set) => set.data.length > 0).slice(0, 8)
      .map((set) => `${set.label} ${this.format(set.data.at(-1).y)}`);
    return said.length ? `${said.join(", ")}. Arrow keys step through the values.` : "no values yet";
  }

  step(event) {
    const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    const sets = this.chart.data.datasets;
    if (move === undefined || !sets.some((set) => set.data.length)) return;
    event.preventDefault();
    const longest = Math.max(...sets.map((set) => set.data.length));
    this.index = Math.min(Math.max((this.index ?? longest) + move, 0), longest - 1);
    const active = sets.map((set, datasetIndex) => ({datasetIndex, index: this.index}))
      .filter(({datasetIndex}) => this.index < sets[datasetIndex].data.length);
    this.chart.tooltip.setActiveElements(active, {x: 0, y: 0});
    this.chart.update("none");
    const said = active.map(({datasetIndex, index}) =>
      `${sets[datasetIndex].label} ${this.format(sets[datasetIndex].data[index].y)}`);
    this.name(`${this.title} at ${this.place(sets[active[0].datasetIndex].data[this.index].x)}: ${said.join(", ")}`);
  }
}
