// The live parts of the start page: the plots, the totals, the state, and buttons that copy.
// All figures come from /metrics, every two seconds while somebody looks.
"use strict";

const PERIOD = 2000; // milliseconds
const POINTS = 60;
const WIDTH = 600;
const HEIGHT = 100;

const ready = document.getElementById("ready");
const rows = [...document.querySelectorAll("#totals [data-route]")];

/** Prometheus' text as a function from a sample's name with its labels to its value. */
function parse(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const end = line.lastIndexOf(" ");
    if (end > 0 && !line.startsWith("#")) samples.set(line.slice(0, end), Number(line.slice(end)));
  }
  return (name) => samples.get(name) ?? 0;
}

function svg(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** A plot of the last POINTS values; null is a gap. */
class Plot {
  constructor(title, unit, digits) {
    Object.assign(this, { title, unit, digits, values: Array(POINTS).fill(null) });
    const figure = document.createElement("figure");
    const caption = figure.appendChild(document.createElement("figcaption"));
    caption.append(title);
    this.now = caption.appendChild(document.createElement("output"));
    this.now.setAttribute("aria-live", "off");
    this.drawing = figure.appendChild(
      svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }),
    );
    this.path = this.drawing.appendChild(svg("path", {}));
    const scale = figure.appendChild(document.createElement("div"));
    scale.className = "scale";
    scale.append(`${(PERIOD * POINTS) / 60000} minutes`);
    this.top = scale.appendChild(document.createElement("span"));
    document.getElementById("plots").append(figure);
  }

  say(value) {
    return value === null ? "–" : `${value.toFixed(this.digits)} ${this.unit}`;
  }

  add(value) {
    this.values = [...this.values.slice(1), value];
    const seen = this.values.filter((one) => one !== null);
    const most = seen.length ? Math.max(...seen) : null;
    this.now.textContent = this.say(value);
    this.top.textContent = `highest ${this.say(most)}`;
    this.drawing.setAttribute(
      "aria-label",
      `${this.title}: now ${this.say(value)}, at most ${this.say(most)}`,
    );
    this.path.setAttribute("d", this.outline(most || 1));
  }

  /** Each unbroken run of values as an area over the axis. */
  outline(most) {
    const step = WIDTH / POINTS;
    return this.values
      .map((value, index) => {
        if (value === null) return "";
        const height = HEIGHT - (value / most) * (HEIGHT - 4);
        const left = index * step;
        return `M${left} ${HEIGHT}V${height}H${left + step}V${HEIGHT}`;
      })
      .join("");
  }
}

const requests = new Plot("Requests a second", "/s", 1);
const latency = new Plot("Mean time of a request", "ms", 1);
let before = null;

function show(sample) {
  const now = { time: performance.now(), count: 0, seconds: 0 };
  for (const row of rows) {
    const labels = `{route="${row.dataset.route}"}`;
    const count = sample(`infinity_request_seconds_count${labels}`);
    const seconds = sample(`infinity_request_seconds_sum${labels}`);
    const [total, mean] = row.querySelectorAll("td");
    total.textContent = count;
    mean.textContent = count ? `${((seconds / count) * 1000).toFixed(1)} ms` : "–";
    now.count += count;
    now.seconds += seconds;
  }
  // Fewer than before: the server has started anew.
  if (before && now.count >= before.count) {
    const done = now.count - before.count;
    requests.add((done * 1000) / (now.time - before.time));
    latency.add(done ? ((now.seconds - before.seconds) / done) * 1000 : null);
  }
  before = now;
}

function tell(good, text) {
  ready.textContent = text;
  ready.className = good ? "good" : "bad";
}

async function look() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/metrics", { cache: "no-store" });
    if (!answer.ok) {
      tell(false, answer.status === 401 ? "Log in again" : "Not ready");
      return;
    }
    const sample = parse(await answer.text());
    const good = sample("infinity_ready") === 1;
    tell(good, good ? "Ready" : "Not ready");
    show(sample);
  } catch {
    tell(false, "Out of reach");
  }
}

for (const article of document.querySelectorAll("article")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy the example for ${article.querySelector("h3").textContent}`);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(article.querySelector("pre").textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), PERIOD);
  });
  article.querySelector("h3").after(button);
}

document.getElementById("plots").hidden = false;
look();
setInterval(look, PERIOD);
