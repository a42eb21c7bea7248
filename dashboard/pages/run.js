// One run's records, as they arrive.

export class Run {
  constructor(about, records) {
    this.about = about;  // from the server: dir, config, control; from a list: also its row
    this.progress = [];
    this.details = [];
    this.evaluations = new Map();  // by epoch, because a resumed run evaluates some epochs again
    this.events = [];
    this.checkpoints = [];
    this.moves = new Map();  // moves of shards, by server: {came, went}
    for (const record of records) this.add(record);
  }

  add(record) {
    switch (record.kind) {
      case "progress": this.progress.push(record); break;
      case "detail": this.addDetail(record); break;
      case "resumed":  // later ones are of training that was given up
        for (const epoch of [...this.evaluations.keys()]) {
          if (epoch > record.epoch + 1e-9) this.evaluations.delete(epoch);
        }
        break;
      case "evaluation":
        this.evaluations.delete(record.epoch);
        this.evaluations.set(record.epoch, record);
        if (this.evaluations.size > 2000) this.evaluations.delete(this.evaluations.keys().next().value);
        break;
      case "event": this.events.push(record); break;
      case "checkpoint": this.checkpoints.push(record); break;
    }
    this.thin(this.progress, 3000);
    this.thin(this.details, 600);
    if (this.events.length > 300) this.events.shift();
  }

  addDetail(record) {
    const last = this.details.at(-1);
    this.details.push(record);
    if (!last || !record.servers) return;
    // Before other servers joined, the coordinator's server held all shards.
    const before = last.servers ?? [{id: record.servers[0].id, shards: last.shards.map(({id}) => id)}];
    for (const {id, shards} of record.servers) {
      const had = before.find((server) => server.id === id)?.shards ?? [];
      const {came, went} = this.moves.get(id) ?? {came: 0, went: 0};
      this.moves.set(id, {came: came + shards.filter((shard) => !had.includes(shard)).length,
                          went: went + had.filter((shard) => !shards.includes(shard)).length});
    }
  }

  // Thins out old records, so that a page that stays open for days stays fast.
  thin(records, most) {
    if (records.length <= most) return;
    const half = records.length >> 1;
    const kept = records.filter((_, i) => i >= half || i % 2 === 0);
    records.splice(0, records.length, ...kept);
  }

  get now() { return this.progress.at(-1) ?? {}; }
  get detail() { return this.details.at(-1) ?? {workers: [], shards: [], refused: {}}; }
  get test() { return [...this.evaluations.values()].at(-1) ?? {}; }
  get label() { return this.about.id ?? this.name; }
  get name() {
    const said = /^name:\s*"?([^"\n]+)"?/m.exec(this.about.config ?? "");
    return said ? said[1] : (this.about.name ?? this.about.dir ?? "");
  }

  // The position of a record on the chosen axis.
  at(record, axis) {
    if (axis !== "epoch") return record.seconds;
    if (record.epoch !== undefined) return record.epoch;
    return this.epochAt(record.seconds);
  }
  epochAt(seconds) {
    const records = this.progress;
    let low = 0, high = records.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (records[middle].seconds < seconds) low = middle + 1; else high = middle;
    }
    return records[low]?.epoch ?? 0;
  }

  // The points {x, y} of all records of a kind; `of` is a field or a function.
  points(records, of, axis) {
    const points = [];
    for (const record of records) {
      const y = typeof of === "function" ? of(record) : record[of];
      if (Number.isFinite(y)) points.push({x: this.at(record, axis), y});
    }
    points.sort((a, b) => a.x - b.x);
    return points;
  }
}
