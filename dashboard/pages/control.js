// The control row: an admin's requests to the server.
import {element, fill} from "./dom.js";

const kSure = 4000;  // a second press within these milliseconds confirms

export class Control {
  constructor(root) {
    this.root = root;
    this.answer = root.querySelector("#answer");
    this.rate = root.querySelector("#rate");
    this.workers = root.querySelector("#drain");
    root.querySelector("#rate-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const value = Number(this.rate.value.replace(",", "."));
      if (Number.isFinite(value)) this.ask("learning-rate", {value}); else this.say("that is no number", "bad");
    });
    root.querySelector("#checkpoint").addEventListener("click", () => this.ask("checkpoint", {}));
    root.querySelector("#drain-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.twice(event.submitter ?? root.querySelector("#drain-form button"),
                 () => this.ask("drain", {worker: Number(this.workers.value)}));
    });
  }

  // A drained worker does not come back by itself, so the first press only asks.
  twice(button, act) {
    if (button.classList.contains("sure")) {
      this.calm(button);
      act();
      return;
    }
    button.classList.add("sure");
    button.textContent = `Really drain worker ${this.workers.value}?`;
    this.timer = setTimeout(() => this.calm(button), kSure);
  }
  calm(button) {
    clearTimeout(this.timer);
    button.classList.remove("sure");
    button.textContent = "Drain";
  }

  async ask(what, body) {
    this.say("…", "quiet");
    try {
      const reply = await fetch(`api/${what}`, {
        method: "POST", body: JSON.stringify(body),
        headers: {"Content-Type": "application/json", "X-Psgd": "control"},
      });
      this.say((await reply.text()).trim(), reply.ok ? "good" : "bad");
    } catch {
      this.say("the server does not answer", "bad");
    }
  }
  say(text, kind) {
    this.answer.className = kind;
    this.answer.textContent = text;
  }

  show(run) {
    this.root.hidden = !run.about.control;
    const {learning_rate: rate, workers} = run.detail;
    if (rate && document.activeElement !== this.rate && this.shown !== rate) this.rate.value = this.shown = rate;
    const live = workers.filter((worker) => worker.live && !worker.leaving);
    const names = live.map((worker) => `${worker.id} ${worker.name}`).join("\n");
    if (names === this.names || document.activeElement === this.workers) return;
    this.names = names;
    fill(this.workers, ...live.map((worker) => element("option", {value: worker.id}, `${worker.id} ${worker.name}`)));
  }
}
