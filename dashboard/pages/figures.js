// The key figures at the top: tiles for one run, a table for several.
import {bytes, count, duration, percent, plain, ratio} from "./format.js";
import {element, fill, table} from "./dom.js";

function figuresOf(run) {
  const {now, detail, test, about} = run;
  const over = about.wall_seconds !== undefined;  // a recorded run: figures of its summary
  const epochs = now.epochs ?? /^\s*epochs:\s*(\d+)/m.exec(run.about.config ?? "")?.[1];
  return [
    ["epoch", `${plain(now.epoch ?? 0, 3)}${epochs ? ` / ${epochs}` : ""}`],
    ["training loss", plain(run.progress.findLast((record) => record.loss > 0)?.loss)],
    ["test accuracy", percent(test.accuracy)],
    ["samples/s", count(over ? about.samples_per_second : now.samples_per_second)],
    ["pushed", `${bytes(now.bytes_pushed)}`],
    ["less than fp32", ratio(now.bytes_pushed_dense, now.bytes_pushed)],
    ["mean staleness", plain(now.staleness_mean, 3)],
    ["learning rate", plain(now.learning_rate)],
    ["workers", String((over ? about.workers : now.workers) ?? "–")],
    ["checkpoint age", detail.checkpoint ? duration(detail.checkpoint_age) : "–"],
    ["time", duration(now.seconds)],
  ];
}

export function showFigures(holder, runs) {
  if (runs.length === 0) return fill(holder);
  if (runs.length === 1) {
    return fill(holder, ...figuresOf(runs[0]).map(([name, value]) =>
      element("div", {class: "figure", "data-figure": name}, element("b", {title: value}, value), element("span", {}, name))));
  }
  const all = runs.map(figuresOf);
  const compared = table(["", ...runs.map((run) => run.label)],
                         all[0].map(([name], i) => [name, ...all.map((figures) => figures[i][1])]));
  const panel = element("div", {class: "panel wide scroll", tabindex: "0", role: "region", "aria-label": "Runs compared"}, compared);
  panel.style.gridColumn = "1 / -1";
  fill(holder, panel);
}
