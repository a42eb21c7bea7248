// The key figures at the top: tiles for one run, a table for several.
import {bytes, count, duration, percent, plain, ratio} from "./format.js";
import {element, fill, table} from "./dom.js";

// What tells how good the model is: its accuracy, or what is measured of numbers and labels.
function scoreOf({accuracy, measures = {}}) {
  if (measures.rmse !== undefined) return ["test RMSE", plain(measures.rmse)];
  if (measures.f1 !== undefined) return ["test F1", percent(measures.f1)];
  return ["test accuracy", percent(accuracy)];
}

// What else is measured of the test set.
function moreOf({measures = {}}) {
  return [...(measures.auc !== undefined ? [["test AUC", percent(measures.auc)]] : []),
          ...(measures.perplexity !== undefined ? [["test perplexity", plain(measures.perplexity)]] : [])];
}

function figuresOf(run) {
  const {now, detail, test, about} = run;
  const over = about.wall_seconds !== undefined;  // a recorded run: figures of its summary
  const epochs = now.epochs ?? /^\s*epochs:\s*(\d+)/m.exec(run.about.config ?? "")?.[1];
  return [
    ["epoch", `${plain(now.epoch ?? 0, 3)}${epochs ? ` / ${epochs}` : ""}`],
    ["training loss", plain(run.progress.findLast((record) => record.loss > 0)?.loss)],
    scoreOf(test),
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
    return fill(holder, ...[...figuresOf(runs[0]), ...moreOf(runs[0].test)].map(([name, value]) =>
      element("div", {class: "figure", "data-figure": name}, element("b", {title: value}, value), element("span", {}, name))));
  }
  const all = runs.map(figuresOf);
  const names = (i) => new Set(all.map((figures) => figures[i][0]));
  const compared = table(["", ...runs.map((run) => run.label)],
                         all[0].map(([name], i) => (names(i).size === 1
                           ? [name, ...all.map((figures) => figures[i][1])]
                           : ["test", ...all.map((figures) => `${figures[i][1]} (${figures[i][0]})`)])));
  const panel = element("div", {class: "panel wide scroll", tabindex: "0", role: "region", "aria-label": "Runs compared"}, compared);
  panel.style.gridColumn = "1 / -1";
  fill(holder, panel);
}
