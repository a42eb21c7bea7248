// The panels: what each shows for one run or for several.
import {bytes, count, duration, ms, percent, plain} from "./format.js";
import {element} from "./dom.js";
import {bars, events, heatMap, liveness, shards} from "./blocks.js";

const line = (name, kind, of) => ({name, kind, of});
const alone = (kind, of) => [line("", kind, of)];

// Before training a record has no loss; older ones have 0.
const trained = (field) => (record) => (record.samples === 0 || (!record.loss && !record.accuracy) ? undefined : record[field] ?? undefined);

// A line for each worker in the details.
function workerLines(run, field) {
  const ids = new Set(run.details.flatMap((detail) => detail.workers.map((worker) => worker.id)));
  return [...ids].sort((a, b) => a - b).map((id) =>
    line(`worker ${id}`, "details", (detail) => detail.workers.find((worker) => worker.id === id)?.[field]));
}
function shardLines(run, field) {
  return run.detail.shards.map((shard) =>
    line(`shard ${shard.id}`, "details", (detail) => detail.shards[shard.id]?.[field]));
}

// A phase's share of the time in a record.
const shareOf = (phase) => ({time}) => {
  const total = Object.values(time ?? {}).reduce((sum, seconds) => sum + seconds, 0);
  return total > 0 ? time[phase] / total : undefined;
};

// `lines(run, several)` returns curves; `blocks(run)` returns an element per run. `empty` is the
// text when there is nothing to show.
export const kPanels = [
  {id: "loss", title: "Loss", lines: () => [line("training", "progress", trained("loss")), line("test", "evaluations", "loss")]},
  {id: "accuracy", title: "Accuracy", format: percent, least: 0, most: 1,
   lines: () => [line("training", "progress", trained("accuracy")), line("test", "evaluations", "accuracy")],
   empty: "No accuracy yet; numbers and labels have none."},
  {id: "measures", title: "Other measures on the test set",
   lines: (run) => Object.keys([...run.evaluations.values()].at(-1)?.measures ?? {}).map((name) =>
     line(name, "evaluations", ({measures}) => measures?.[name])),
   empty: "None yet; classes have none."},
  {id: "speed", title: "Samples a second, by worker", format: count,
   lines: (run, several) => (several ? alone("progress", "samples_per_second")
                                     : [...workerLines(run, "samples_per_second"), line("all", "progress", "samples_per_second")])},
  {id: "time", title: "Where the workers' time goes", format: percent, least: 0, most: 1,
   lines: (run, several) => (several ? ["compute", "wait", "wire", "apply"] : ["data", "compute", "encode", "wait", "wire", "apply"])
     .map((phase) => line(phase, "details", shareOf(phase))),
   note: "Wait: for weights that a shard held back, for slower workers or its journal. Wire: for weights on their way. Apply: for weights, while the shard took in updates."},
  {id: "staleness", title: "Staleness: workers × clocks ahead of the slowest", blocks: heatMap},
  {id: "latency", title: "Push and pull latency", format: ms, logarithmic: true,
   lines: (run, several) => ["push_p50", "push_p99", "pull_p50", "pull_p99"].filter((name) => !several || /99/.test(name))
     .map((name) => line(name.replace("_", " "), "details", name)),
   note: "From leaving the worker to the answer, as the worker saw it; waiting at the staleness bound is part of a pull."},
  {id: "bytes", title: "Bytes against dense", format: bytes, logarithmic: true,
   lines: (run, several) => [line("pushed", "progress", "bytes_pushed"), line("pushed as fp32", "progress", "bytes_pushed_dense"),
                             ...(several ? [] : [line("pulled", "progress", "bytes_pulled"),
                                                 line("pulled as fp32", "progress", "bytes_pulled_dense")])]},
  {id: "residual", title: "Residual norms",
   lines: (run, several) => [...(several ? [] : workerLines(run, "residual_norm")), line(several ? "" : "all", "progress", "residual_norm")],
   note: "Of what lossy codecs left behind on the workers, to be pushed later."},
  {id: "rejected", title: "Rejected pushes, by reason",
   blocks: (run) => {
     const reasons = Object.entries(run.detail.refused ?? {});
     return reasons.length ? bars(reasons, count) : element("p", {}, "none: 0 rejected");
   }},
  {id: "shards", title: "Shard balance", blocks: shards},
  {id: "queue", title: "Queued bytes", format: bytes, least: 0,
   lines: (run, several) => (several ? alone("details", "queue_bytes") : shardLines(run, "queue_bytes")),
   note: "Pushes that wait for slower workers or a checkpoint, and replies to slow readers."},
  {id: "journal", title: "Journal sync latency", format: ms, logarithmic: true,
   lines: () => ["journal_p50", "journal_p99"].map((name) => line(name.replace("journal_", ""), "details", name)),
   empty: "No journal: durability.acknowledge is memory."},
  {id: "checkpoint", title: "Checkpoint age", format: duration,
   lines: () => alone("details", "checkpoint_age"),
   empty: "No checkpoint was taken yet."},
  {id: "live", title: "Workers, shards and servers", blocks: liveness, wide: true},
  {id: "events", title: "Events", blocks: events, wide: true},
];
