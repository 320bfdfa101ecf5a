"use strict";
// Details of a mark beside the pointer. Without this script the browser shows the same text, from the mark's <title>.
const tip = document.getElementById("tip");
for (const title of document.querySelectorAll(".mark > title, .key-use > title")) {
  title.parentNode.details = title.textContent;
  title.remove();
}
const detailed = (target) => target instanceof Element && target.closest(".mark, .key-use");
function show(target, x, y) {
  tip.replaceChildren();
  for (const [number, line] of target.details.split("\n").entries()) {
    const colon = line.indexOf(": ");
    const [name, value] = number === 0 ? [null, line.replace(/^verdict: /, "")] : [line.slice(0, colon), line.slice(colon + 2)];
    const element = document.createElement("b");
    element.textContent = value;
    if (name === null) {
      element.className = "first";
    } else {
      const label = document.createElement("i");
      label.textContent = name;
      tip.append(label);
    }
    tip.append(element);
  }
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 8)) + "px";
  tip.style.top = (y + height + 24 > innerHeight ? Math.max(4, y - height - 14) : y + 16) + "px";
}
document.addEventListener("pointermove", (event) => {
  const target = detailed(event.target);
  if (target) show(target, event.clientX, event.clientY);
  else tip.hidden = true;
});
document.addEventListener("scroll", () => { tip.hidden = true; }, true);

// The time axis: every element has two places.
function drawAxis(scale) {
  for (const timeline of document.querySelectorAll(".timeline")) {
    timeline.classList.toggle("to-scale", scale);
    for (const element of timeline.querySelectorAll("[data-scale]")) {
      const { x, width, scale: scaled, scaleWidth } = element.dataset;
      if (width === undefined) {
        element.setAttribute("transform", `translate(${scale ? scaled : x},0)`);
      } else {
        element.setAttribute("x", scale ? scaled : x);
        element.setAttribute("width", scale ? scaleWidth : width);
      }
    }
  }
}
function showOnly(sort) {
  for (const article of document.querySelectorAll("article")) {
    article.hidden = sort !== "all" && !article.classList.contains(sort);
  }
  for (const fold of document.querySelectorAll(".fold")) {
    fold.hidden = sort !== "all" && sort !== "good";
    fold.open ||= sort === "good";
  }
}
for (const choice of document.querySelectorAll(".choice")) {
  choice.hidden = false;
  choice.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    for (const other of choice.children) other.setAttribute("aria-pressed", String(other === button));
    if (button.dataset.axis) drawAxis(button.dataset.axis === "scale");
    if (button.dataset.show) showOnly(button.dataset.show);
  });
}
