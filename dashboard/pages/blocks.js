// Contents of panels that are not curves.
import {bytes, count, duration, ms, percent, plain} from "./format.js";
import {element, table} from "./dom.js";

const kMostColumns = 24;

// A table whose cells are darker the more pulls they count.
export function heatMap(run) {
  const workers = run.detail.workers.filter((worker) => worker.staleness.length > 0);
  if (workers.length === 0) return element("p", {class: "empty"}, "No pulls yet.");
  const columns = Math.min(kMostColumns, Math.max(...workers.map((worker) => worker.staleness.length)));
  const last = (counts) => counts.slice(columns - 1).reduce((sum, n) => sum + n, 0);
  const headings = ["worker", ...Array.from({length: columns}, (_, s) =>
    (s === kMostColumns - 1 ? `${s}+` : String(s)))];
  const rows = workers.map((worker) => {
    const total = worker.staleness.reduce((sum, n) => sum + n, 0);
    const cells = Array.from({length: columns}, (_, s) => {
      const n = s === columns - 1 ? last(worker.staleness) : worker.staleness[s] ?? 0;
      const share = n / total;
      const strong = share > 0.55;
      const cell = element("td", {title: `${n} pulls, ${percent(share)}`, class: strong ? "strong" : ""},
                           n === 0 ? "" : `${Math.round(100 * share)}%`);
      // The depths have a gap, because in between no text color is readable.
      const depth = strong ? "0.95" : `calc(0.08 + var(--heat-scale) * ${Math.sqrt(share).toFixed(3)})`;
      if (n > 0) cell.style.background = `rgb(var(--heat) / ${depth})`;
      return cell;
    });
    return [`${worker.id} ${worker.name}`, ...cells];
  });
  return table(headings, rows, {className: "heat"});
}

export function bars(entries, format) {
  const most = Math.max(...entries.map(([, value]) => value), 1);
  return element("div", {class: "bars"}, ...entries.flatMap(([name, value]) => {
    const bar = element("i", {"aria-hidden": "true"});
    bar.style.width = `${(100 * value) / most}%`;
    return [element("span", {}, name), element("span", {}, bar), element("span", {}, format(value))];
  }));
}

export function shards(run) {
  const all = run.detail.shards;
  if (all.length === 0) return element("p", {class: "empty"}, "No shards yet.");
  const sizes = all.map((shard) => shard.bytes);
  const mean = sizes.reduce((sum, n) => sum + n, 0) / sizes.length;
  return element("div", {}, bars(all.map((shard) => [`shard ${shard.id}`, shard.bytes]), bytes),
    element("p", {}, mean > 0 ? `largest ${plain(Math.max(...sizes) / mean, 3)} × the mean` : "no weights yet"),
    table(["shard", "slices", "pushes", "pulls", "repeated"],
          all.map((shard) => [String(shard.id), count(shard.slices), count(shard.pushes), count(shard.pulls), count(shard.duplicates)])));
}

const badge = (kind, text) => element("span", {class: `badge ${kind}`}, text);

function workerState(worker) {
  if (!worker.live) return badge("bad", "✕ gone");
  if (worker.leaving) return badge("warn", "↷ leaving");
  return worker.heard > 5 ? badge("warn", "? silent") : badge("good", "✓ live");
}

const kServerStates = {live: ["good", "✓ live"], leaves: ["warn", "↷ leaves"], left: ["quiet", "left"], away: ["bad", "✕ away"]};

function servers(run) {
  return table(["server", "state", "shards", "held", "came", "went", "weights", "copies", "heard"],
    run.detail.servers.map((server) => {
      const {came, went} = run.moves.get(server.id) ?? {came: 0, went: 0};
      const copies = server.catching_up ? `${server.copies} + ${server.catching_up} catching up` : String(server.copies);
      return [`server ${server.id} ${server.name}${server.leads ? " (leads)" : ""}`, badge(...kServerStates[server.state]), server.shards.join(" ") || "–",
              count(server.shards.length), count(came), count(went), bytes(server.bytes), copies,
              `${duration(server.heard)} ago`];
    }), {text: 3});
}

export function liveness(run) {
  const {workers, shards: all} = run.detail;
  if (workers.length + all.length === 0) return element("p", {class: "empty"}, "No details were recorded.");
  const fastest = Math.max(0, ...workers.filter((worker) => worker.live).map((worker) => worker.clock));
  const said = [run.detail.waits_for, run.detail.failed_checkpoint && `no ${run.detail.failed_checkpoint}`].filter(Boolean);
  return element("div", {},
    ...said.map((text) => element("p", {class: "bad", role: "status"}, text)),
    table(["worker", "state", "clock", "behind", "samples/s", "heard", "data wait", "residual", "push p99", "pull p99", "why"],
          workers.map((worker) => [`${worker.id} ${worker.name}`, workerState(worker), count(worker.clock),
            worker.live ? count(fastest - worker.clock) : "–", count(worker.samples_per_second),
            `${duration(worker.heard)} ago`, percent(worker.input_stall), plain(worker.residual_norm, 3), ms(worker.push_p99),
            ms(worker.pull_p99), element("td", {class: "note"}, worker.note)]), {text: 2}),
    table(["shard", "state", "waiting pulls", "queued", "journal", "journal p99"],
          all.map((shard) => [`shard ${shard.id}`, shard.stalled ? badge("bad", `✕ stalled: ${shard.stalled}`) : badge("good", "✓ live"),
            count(shard.waiting_pulls), bytes(shard.queue_bytes), bytes(shard.journal_bytes), ms(shard.journal_p99)]), {text: 2}),
    run.detail.servers ? servers(run) : null);
}

export function events(run) {
  const latest = run.events.slice(-60).reverse();
  if (latest.length === 0) return element("p", {class: "empty"}, "Nothing happened yet.");
  return element("ul", {class: "events"}, ...latest.map((event) =>
    element("li", {}, element("span", {class: "quiet"}, `${duration(event.seconds)}  `), event.text)));
}
