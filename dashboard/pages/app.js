// The server's data decides what this page shows: the dashboard of a running run, or a list of
// recorded runs.
import {Board} from "./board.js";
import {Control} from "./control.js";
import {showFigures} from "./figures.js";
import {Library} from "./library.js";
import {Run} from "./run.js";

const at = (id) => document.getElementById(id);
const kKinds = {waiting: "warn", training: "good", draining: "warn", finished: "good", failed: "bad"};
const kSilence = 8000;  // milliseconds

const board = new Board(at("panels"));
const control = new Control(at("control"));
let live = null;
let library = null;
let over = false;
let heard = 0;

at("axis").addEventListener("change", (event) => board.across(event.target.value));

// Changes the text only when it differs, because a screen reader reads it out.
function say(id, text, kind) {
  const badge = at(id);
  if (badge.textContent === text) return;
  badge.textContent = text;
  badge.className = kind === undefined ? "" : `badge ${kind}`;
}

function showLive() {
  showFigures(at("figures"), [live]);
  if (!over) control.show(live);
  const {state, detail} = live.detail;
  if (state) say("run-state", detail ? `${state}: ${detail}` : state, kKinds[state]);
  at("name").textContent = live.name;
  document.title = `${live.name} – psgd`;
  board.changed();
}

let drawing = false;
function showSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; showLive(); });
}

// Runs of the list, cached until their files change.
const read = new Map();
let asked = 0;
async function showChosen(rows) {
  const turn = ++asked;
  at("hint").hidden = rows.length > 0;
  const runs = await Promise.all(rows.map(async (row) => {
    const known = read.get(row.id);
    if (known?.about.changed === row.changed) return known;
    const reply = await fetch(`api/run?id=${encodeURIComponent(row.id)}`);
    if (!reply.ok) return known ?? new Run({...row, note: await reply.text()}, []);
    const {run, records} = await reply.json();
    const made = new Run(run, records);
    read.set(row.id, made);
    return made;
  }));
  if (turn !== asked) return;
  at("panels").hidden = runs.length === 0;
  showFigures(at("figures"), runs);
  board.show(runs);
  at("name").textContent = runs.length === 1 ? runs[0].label : "runs";
}

// Says that the run has ended, and how to see it later.
function showEnd() {
  const dir = live?.about.dir ?? "";
  const folder = dir.replace(/\/+$/, "").replace(/(^|\/)[^/]*$/, "") || (dir.startsWith("/") ? "/" : ".");
  const quoted = /^[\w.+@%:/=,-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`;
  at("later").textContent = `ps-ctl ui ${quoted}`;
  at("ended").hidden = false;
}

// A run that goes on later may use the same address.
let asking = null;
function reloadOnceAnswered() {
  asking ??= setInterval(async () => {
    const reply = await fetch("./", {cache: "no-store"}).catch(() => null);
    if (reply?.ok) location.reload();
  }, 5000);
}

const source = new EventSource("events");
const listen = (name, then) => source.addEventListener(name, (event) => {
  heard = Date.now();
  then(JSON.parse(event.data));
});
// The server sends all records, also after a reconnect, and they replace the page's.
listen("start", ({run, records}) => {
  over = false;
  live = new Run(run, records);
  board.show([live]);
  say("link", "live", "good");
  showSoon();
});
listen("record", (record) => {
  if (!live) return;
  live.add(record);
  say("link", "live", "good");
  showSoon();
});
listen("over", () => {
  over = true;
  say("link", "over", "quiet");
  at("control").hidden = true;
  source.close();  // what the page shows stays
  showEnd();
  reloadOnceAnswered();
});
listen("runs", ({rows}) => {
  library ??= new Library(at("library"), showChosen);
  document.title = "runs – psgd";
  say("link", "live", "good");
  library.show(rows);
});
source.addEventListener("error", () => {
  say("link", "reconnecting", "warn");
  // A browser does not reconnect by itself after a refusal.
  if (source.readyState === EventSource.CLOSED) reloadOnceAnswered();
});
setInterval(() => {
  if (live && !over && source.readyState === EventSource.OPEN && Date.now() - heard > kSilence) {
    say("link", "silent", "warn");
  }
}, 1000);
