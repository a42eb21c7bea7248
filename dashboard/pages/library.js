// The list of recorded runs, with sorting, search and selection.
import {bytes, count, duration, percent, plain, ratio} from "./format.js";
import {element, fill} from "./dom.js";

const kMostChosen = 6;
const kStatusKinds = {finished: "good", running: "good", interrupted: "warn"};

// The first of these that a run has.
function otherMeasure({test_measures: {rmse, f1, auc, perplexity} = {}}) {
  if (rmse !== undefined) return {value: rmse, text: `RMSE ${plain(rmse)}`};
  if (f1 !== undefined) return {value: f1, text: `F1 ${percent(f1)}`};
  if (auc !== undefined) return {value: auc, text: `AUC ${percent(auc)}`};
  return perplexity === undefined ? undefined : {value: perplexity, text: `perplexity ${plain(perplexity)}`};
}

const kColumns = [
  {title: "run", of: (row) => row.id, text: true},
  {title: "status", of: (row) => row.status, text: true, show: (row) =>
    element("span", {class: `badge ${kStatusKinds[row.status] ?? "bad"}`, title: row.note}, row.status)},
  {title: "test accuracy", of: (row) => row.test_accuracy, show: (row) => percent(row.test_accuracy ?? NaN)},
  {title: "test loss", of: (row) => row.test_loss, show: (row) => plain(row.test_loss ?? NaN)},
  {title: "other measure", of: (row) => otherMeasure(row)?.value, show: (row) => otherMeasure(row)?.text ?? "–"},
  {title: "codec", of: (row) => row.codec, text: true},
  {title: "staleness", of: (row) => (row.staleness_bound === "unbounded" ? Infinity : row.staleness_bound), show: (row) => String(row.staleness_bound ?? "–")},
  {title: "workers", of: (row) => row.workers},
  {title: "shards", of: (row) => row.shards},
  {title: "epochs", of: (row) => row.epochs, show: (row) => plain(row.epochs ?? NaN, 3)},
  {title: "samples/s", of: (row) => row.samples_per_second, show: (row) => count(row.samples_per_second)},
  {title: "pushed", of: (row) => row.bytes_pushed, show: (row) => bytes(row.bytes_pushed)},
  {title: "less", of: (row) => row.bytes_pushed_dense / row.bytes_pushed, show: (row) => ratio(row.bytes_pushed_dense, row.bytes_pushed)},
  {title: "time", of: (row) => row.wall_seconds, show: (row) => duration(row.wall_seconds ?? NaN)},
  {title: "what is wrong", of: (row) => row.note, text: true, note: true},
];

export class Library {
  // Calls `onChoice(rows)` when the selection or the files of selected runs change.
  constructor(root, onChoice) {
    this.root = root;
    this.onChoice = onChoice;
    this.rows = [];
    this.sorted = {column: 0, down: false};
    this.chosen = new Set(new URLSearchParams(location.hash.slice(1)).getAll("run"));
    this.table = root.querySelector("#runs");
    this.count = root.querySelector("#count");
    this.find = root.querySelector("#find");
    this.find.addEventListener("input", () => this.draw());
    root.querySelector("#clear").addEventListener("click", () => { this.chosen.clear(); this.choose(); this.draw(); });
    this.head = kColumns.map((column, i) => element("th", {scope: "col", class: column.text ? "text" : ""},
      element("button", {type: "button", onclick: () => this.sortBy(i)}, column.title)));
    this.body = element("tbody");
    fill(this.table, element("thead", {}, element("tr", {}, ...this.head)), this.body);
    root.hidden = false;
  }

  show(rows) {
    this.rows = rows;
    if (rows.length === 1) this.chosen.add(rows[0].id);
    this.draw();
    this.onChoice(this.rows.filter((row) => this.chosen.has(row.id)));
  }

  sortBy(column) {
    this.sorted = {column, down: this.sorted.column === column ? !this.sorted.down : !kColumns[column].text};
    this.draw();
  }

  draw() {
    const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const {of} = kColumns[this.sorted.column];
    const turn = this.sorted.down ? -1 : 1;
    const shown = this.rows
      .filter((row) => words.every((word) => `${row.id} ${row.name} ${row.codec} ${row.status} ${row.note}`.toLowerCase().includes(word)))
      .sort((a, b) => {
        const [x, y] = [of(a), of(b)];
        const missing = (v) => v === null || v === undefined || Number.isNaN(v);
        if (missing(x) || missing(y)) return missing(x) - missing(y);  // missing values come last
        return turn * (typeof x === "string" ? x.localeCompare(y) : x - y);
      });
    this.head.forEach((th, i) => th.setAttribute("aria-sort",
      i === this.sorted.column ? (this.sorted.down ? "descending" : "ascending") : "none"));
    // A column that says nothing of any run takes no room.
    this.used = kColumns.map(({of}) => this.rows.some((row) => of(row) || of(row) === 0));
    this.head.forEach((th, i) => { th.hidden = !this.used[i]; });
    fill(this.body, ...shown.map((row) => this.line(row)));
    const broken = this.rows.filter((row) => !(row.status in kStatusKinds)).length;
    this.count.textContent = `${shown.length} of ${this.rows.length} runs${broken ? `, ${broken} with something wrong` : ""}`;
  }

  line(row) {
    const box = element("input", {type: "checkbox", "aria-label": `show ${row.id}`, onchange: () => this.toggle(row, line, box)});
    box.checked = this.chosen.has(row.id);
    const line = element("tr", {"aria-selected": String(box.checked)}, ...kColumns.map((column, i) => {
      const content = column.show ? column.show(row) : column.of(row) ?? "–";
      const cell = element("td", {class: column.note ? "note" : column.text ? "text" : ""},
                           ...(i === 0 ? [element("label", {}, box, " ", content)] : [content]));
      cell.hidden = !this.used[i];
      return cell;
    }));
    return line;
  }

  toggle(row, line, box) {
    if (box.checked && this.chosen.size >= kMostChosen) {
      box.checked = false;
      this.count.textContent = `no more than ${kMostChosen} side by side`;
      return;
    }
    if (box.checked) this.chosen.add(row.id); else this.chosen.delete(row.id);
    line.setAttribute("aria-selected", String(box.checked));
    this.choose();
  }

  choose() {
    const hash = new URLSearchParams([...this.chosen].map((id) => ["run", id]));
    history.replaceState(null, "", `#${hash}`);
    this.onChoice(this.rows.filter((row) => this.chosen.has(row.id)));
  }
}
