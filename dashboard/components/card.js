// Shows a card, an SVG image, and saves it as a file: as it is, or drawn as PNG.
const WIDTH = 1200, HEIGHT = 630;  // pixels

export default function ({ data, parentElement }) {
  const whole = parentElement.querySelector(".whole");
  if (whole.dataset.svg === data.svg) return;
  whole.dataset.svg = data.svg;
  const image = document.createElement("img");
  image.alt = data.alt;
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(data.svg);  // unlike others, it can be drawn
  const ways = document.createElement("div");
  ways.className = "ways";
  ways.append(
    button(data.asPng, () => drawn(image, (png) => save(png, `${data.file}.png`))),
    button(data.asSvg, () => save(new Blob([data.svg], { type: "image/svg+xml" }), `${data.file}.svg`)),
  );
  whole.replaceChildren(image, ways);
}

function button(label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  made.onclick = act;
  return made;
}

async function drawn(image, use) {
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH;
  canvas.height = HEIGHT;
  canvas.getContext("2d").drawImage(image, 0, 0, WIDTH, HEIGHT);
  canvas.toBlob(use, "image/png");
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
