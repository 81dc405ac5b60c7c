// The points of a plain scatter: pointed at, one tells its <title> at once; a search leaves those
// that match.

const points = () => [...document.querySelectorAll('svg circle')].filter((circle) => circle.querySelector('title'));

function startTip(circles) {
  const tip = document.createElement('div');
  tip.className = 'tip floating';
  tip.hidden = true;
  document.body.append(tip);
  for (const circle of circles) {
    circle.addEventListener('pointerenter', () => {
      tip.textContent = circle.querySelector('title').textContent;
      tip.hidden = false;
      const at = circle.getBoundingClientRect();
      const { width, height } = tip.getBoundingClientRect();
      const left = Math.min(at.right + 8, document.documentElement.clientWidth - width - 8);
      const top = at.top - height - 8 < 0 ? at.bottom + 8 : at.top - height - 8;
      tip.style.left = `${Math.max(8, left) + scrollX}px`;
      tip.style.top = `${top + scrollY}px`;
    });
    circle.addEventListener('pointerleave', () => {
      tip.hidden = true;
    });
  }
}

/** Returns a function that shows the points with all of these words, and makes the others faint. */
export function startPoints() {
  const circles = points();
  startTip(circles);
  const texts = circles.map((circle) => circle.querySelector('title').textContent.toLowerCase());
  return (words) => circles.forEach((circle, i) => {
    circle.classList.toggle('faint', !words.every((word) => texts[i].includes(word)));
  });
}
