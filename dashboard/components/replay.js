// Replays a run in half a minute. All figures come with the data; here they are only drawn up to a moment.
const LASTS = 30_000;  // milliseconds
const WIDE = 1000, HIGH = 100;  // of the drawings, which are stretched
const NEWCOMERS = 3;  // names shown
const figure = new Intl.NumberFormat("en-US");

export default function ({ data, parentElement }) {
  const whole = parentElement.querySelector(".whole");
  if (whole.dataset.id === data.id) return;
  whole.dataset.id = data.id;
  whole.replay?.stop();
  whole.replay = new Replay(whole, data.story, data.texts);
}

class Replay {
  constructor(whole, story, texts) {
    Object.assign(this, { whole, story, texts, at: 0, playing: false, drawn: -1 });
    this.build();
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.show(calm ? 1 : 0);
    if (!calm) this.play();
  }

  build() {
    const { texts, story } = this;
    this.figures = ["step", "samples", "people", "loss"].map((name) => {
      const value = element("b");
      return { name, value, box: element("div", {}, element("span", {}, texts[name]), value) };
    });
    const losses = drawing(texts.lossPlot, [
      story.table === null ? null : shape("line", { class: "table", x1: 0, x2: WIDE, y1: story.table * HIGH, y2: story.table * HIGH }),
      shape("path", { class: "held", d: line(story.heldOut) }),
      shape("path", { class: "trained", d: line(story.loss) }),
    ]);
    const crowd = drawing(texts.peoplePlot, [
      shape("path", { class: "crowd", d: area(story.people) }),
      ...story.newcomers.map(([x]) => shape("line", { class: "came", x1: x * WIDE, x2: x * WIDE, y1: 88, y2: HIGH })),
    ]);
    this.veils = [losses.veil, crowd.veil];
    this.lines = [element("div", { class: "now" }), element("div", { class: "now" })];
    this.dot = element("div", { class: "dot" });
    this.button = element("button", { type: "button" });
    this.button.onclick = () => (this.playing ? this.stop() : this.play());
    this.slider = element("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": texts.slider });
    this.slider.oninput = () => { this.stop(); this.show(this.slider.value / 1000); };
    this.day = element("time");
    this.newcomers = element("div", { class: "newcomers" });
    this.sentences = (story.fills[0] ?? []).map(() => element("li", { dir: "auto" }));
    this.whole.replaceChildren(
      element("div", { class: "figures" }, ...this.figures.map(({ box }) => box)),
      element("div", { class: "plot losses" }, losses.svg, small("top", story.scale[0]), small("bottom", story.scale[1]), this.lines[0], this.dot),
      element("div", { class: "legend" }, ...legend(texts, story)),
      element("div", { class: "plot people" }, crowd.svg, small("top", story.mostPeople), this.lines[1]),
      element("div", { class: "controls" }, this.button, this.slider, this.day),
      this.newcomers,
      element("ul", { class: "sentences" }, ...this.sentences),
    );
    this.label();
  }

  play() {
    if (this.at >= 1) this.at = 0;
    this.playing = true;
    this.label();
    let before = null;
    const tick = (now) => {
      if (!this.playing || !this.whole.isConnected) return;
      before ??= now;
      this.show(Math.min(1, this.at + (now - before) / LASTS));
      before = now;
      if (this.at >= 1) this.stop();
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  stop() {
    this.playing = false;
    this.label();
  }

  label() {
    const does = this.playing ? this.texts.pause : this.texts.play;
    this.button.textContent = this.playing ? "❚❚" : "▶";
    this.button.setAttribute("aria-label", does);
    this.button.title = does;
  }

  show(at) {
    this.at = at;
    const place = `${100 * at}%`;
    for (const veil of this.veils) veil.setAttribute("width", WIDE * at);
    for (const line of this.lines) line.style.left = place;
    this.dot.style.left = place;
    this.dot.style.top = `${100 * heightAt(this.story.loss, at)}%`;
    this.slider.value = Math.round(1000 * at);
    const { moments } = this.story, number = Math.round(at * (moments.step.length - 1));
    if (number === this.drawn) return;
    this.drawn = number;
    for (const { name, value } of this.figures) {
      value.textContent = name === "loss" ? moments.loss[number].toFixed(2) : figure.format(moments[name][number]);
    }
    this.day.textContent = moments.day[number];
    this.slider.setAttribute("aria-valuetext", `${moments.day[number]}, ${this.texts.step} ${figure.format(moments.step[number])}`);
    this.tellNewcomers();
    this.fill(this.story.fills[moments.fill[number]]);
  }

  tellNewcomers() {
    const here = this.story.newcomers.filter(([x]) => x <= this.at);
    const names = here.slice(-NEWCOMERS).reverse().map(([, name]) => `⁨${name}⁩`).join(", ");
    this.newcomers.textContent = names && this.texts.newcomers.replace("{names}", () => names);
  }

  fill(sentences) {
    this.sentences.forEach((item, index) => {
      const [before, word, after] = sentences?.[index] ?? this.unknown(index);
      item.replaceChildren(before, element("b", {}, word), after);
    });
  }

  unknown(index) {
    const [before, , after] = this.story.fills[0][index];
    return [before, this.texts.blank, after];
  }
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);  // texts become text, whatever they contain
  return made;
}

function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

let drawings = 0;

function drawing(label, shapes) {
  const id = `until-${drawings++}`;
  const veil = shape("rect", { x: 0, y: -10, width: 0, height: HIGH + 20 });
  const seen = shape("g", { "clip-path": `url(#${id})` }, ...shapes.filter(Boolean));
  const box = `0 -6 ${WIDE} ${HIGH + 12}`;
  const svg = shape("svg", { viewBox: box, preserveAspectRatio: "none", role: "img", "aria-label": label },
    shape("clipPath", { id }, veil), seen);
  return { svg, veil };
}

function line(points) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${x * WIDE} ${y * HIGH}`).join("");
}

function area(points) {
  if (!points.length) return "";
  return `${line(points)}L${points.at(-1)[0] * WIDE} ${HIGH}L${points[0][0] * WIDE} ${HIGH}Z`;
}

function heightAt(points, x) {
  const index = points.findIndex(([place]) => place >= x);
  const [x1, y1] = points.at(index < 0 ? -1 : index), [x0, y0] = points[Math.max(0, index - 1)];
  const y = index <= 0 || x1 === x0 ? y1 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
  return (y * HIGH + 6) / (HIGH + 12);
}

function small(where, text) {
  return element("small", { class: where, "aria-hidden": "true" }, text);
}

function legend(texts, story) {
  const kinds = [["var(--st-primary-color)", texts.trained]];
  if (story.heldOut.length) kinds.push(["var(--st-orange-color, #d55e00)", texts.held]);
  if (story.table !== null) kinds.push(["#8b98a5", texts.table]);
  kinds.push(["var(--st-green-color, #009e73)", texts.crowd]);
  return kinds.map(([colour, text]) => element("span", {}, element("i", { style: `border-color: ${colour}` }), text));
}
