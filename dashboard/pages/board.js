// The panels of the page. A panel is redrawn if its data changed and it is visible.
import {LineChart} from "./charts.js";
import {plain} from "./format.js";
import {element, fill, table} from "./dom.js";
import {kPanels} from "./panels.js";

const kPause = 250;  // milliseconds between two drawings

export class Board {
  constructor(holder) {
    this.runs = [];
    this.axis = "seconds";
    this.panels = kPanels.map((panel) => this.make(panel));
    fill(holder, ...this.panels.map((made) => made.root));
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) entry.target.psgdSeen = entry.isIntersecting;
      this.changed();
    }, {rootMargin: "200px"});
    for (const made of this.panels) this.seen.observe(made.root);
    document.addEventListener("themechange", () => this.panels.forEach((made) => made.chart?.recolour()));
    document.addEventListener("visibilitychange", () => this.changed());
  }

  make(panel) {
    const body = element("div", {class: panel.lines ? "plot" : "body", ...(panel.lines ? {} : {tabindex: "0", role: "region", "aria-label": panel.title})});
    const note = element("p", {}, panel.note ?? "");
    const figures = element("div", {tabindex: "0"});
    const details = panel.lines ? element("details", {}, element("summary", {}, "Figures"), figures) : null;
    const root = element("article", {class: panel.wide ? "panel wide" : "panel", id: `panel-${panel.id}`},
                         element("h2", {}, panel.title), body, note, details);
    note.hidden = !panel.note;
    const made = {panel, root, body, note, details, figures};
    if (details) details.addEventListener("toggle", () => this.draw(made));
    return made;
  }

  show(runs) { this.runs = runs; this.changed(); }
  across(axis) { this.axis = axis; this.changed(); }

  changed() {
    for (const made of this.panels) made.stale = true;
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => { this.waiting = false; this.drawSeen(); }, kPause);
  }
  drawSeen() {
    if (document.hidden) return;
    for (const made of this.panels) {
      if (!made.stale || !made.root.psgdSeen) continue;
      try { this.draw(made); } catch (error) { console.error(made.panel.id, error); }  // the others still draw
    }
  }

  draw(made) {
    made.stale = false;
    if (made.panel.lines) this.drawLines(made); else this.drawBlocks(made);
  }

  drawBlocks({panel, body}) {
    const scrolled = body.scrollTop;
    fill(body, ...this.runs.flatMap((run) => [
      this.runs.length > 1 ? element("h3", {}, run.label) : null, panel.blocks(run)]));
    body.scrollTop = scrolled;
  }

  drawLines(made) {
    const {panel, body, note} = made;
    const several = this.runs.length > 1;
    const lines = this.runs.flatMap((run, r) => panel.lines(run, several).map((line, i) => ({
      label: several ? [run.label, line.name].filter(Boolean).join(": ") : line.name || panel.title,
      points: run.points(line.kind === "evaluations" ? [...run.evaluations.values()] : run[line.kind], line.of, this.axis),
      colour: several ? r : i, dash: several ? i : 0, legend: several ? (i === 0 ? run.label : "") : undefined,
    })));
    if (panel.logarithmic) for (const line of lines) line.points = line.points.filter(({y}) => y > 0);
    made.chart ??= new LineChart(body, panel.title, panel);
    made.chart.show(lines, this.axis);
    const nothing = !lines.some((line) => line.points.length);
    body.hidden = nothing && Boolean(panel.empty);
    const dashes = several ? panel.lines(this.runs[0], true).map((line, i) => `${["solid", "dashed", "dotted", "dash-dot"][i]}: ${line.name}`) : [];
    note.textContent = nothing && panel.empty ? panel.empty
      : [dashes.length > 1 ? `${dashes.join(", ")}.` : "", panel.note ?? ""].join(" ").trim();
    note.hidden = note.textContent === "";
    made.root.dataset.points = String(lines.reduce((sum, line) => sum + line.points.length, 0));
    if (made.details.open) fill(made.figures, this.figures(lines, made.chart));
  }

  figures(lines, chart) {
    const format = (y) => (y === undefined ? "–" : chart.format(y));
    const rows = lines.map(({label, points}) => {
      const values = points.map(({y}) => y);
      return [label, format(values.at(-1)), format(values.length ? Math.min(...values) : undefined),
              format(values.length ? Math.max(...values) : undefined), String(values.length)];
    });
    return table(["", "last", "least", "most", "values"], rows);
  }
}
