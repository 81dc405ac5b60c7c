// Draws the charts of a report. The page is whole without this script: it then shows the plain
// figures and the tables.
import * as axes from './charts/axes.js';
import * as breakdown from './charts/breakdown.js';
import * as links from './charts/links.js';
import * as memory from './charts/memory.js';
import * as memoryTime from './charts/memory_time.js';
import * as roofline from './charts/roofline.js';
import * as schedule from './charts/schedule.js';
import * as traffic from './charts/traffic.js';
import { readData } from './data.js';
import { Figure } from './figure.js';
import { startFolding } from './folding.js';
import { startTheme } from './theme.js';
import { startFilters } from './tables.js';

const CHARTS = { axes, breakdown, links, memory, 'memory-time': memoryTime, roofline, schedule, traffic };

/** One after the other, so that the page stays usable meanwhile. */
async function drawAll(figures) {
  for (const figure of figures) {
    await figure.draw();
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** Those that are seen for the first time, or have another width: one after the other. */
async function resizeAll(figures) {
  for (const figure of figures) await figure.resize();
}

/**
 * On paper everything is light. Sections are printed that a reader has opened, with all that is
 * folded within them but what is long.
 */
function startPrinting(figures) {
  const root = document.documentElement;
  let chosen;
  let opened = [];
  addEventListener('beforeprint', () => {
    chosen = root.dataset.theme;
    root.dataset.theme = 'light';
    opened = [...document.querySelectorAll('details.part[open] details:not([open]):not(.long)')];
    for (const details of opened) details.open = true;
    for (const figure of figures) figure.draw();
  });
  addEventListener('afterprint', () => {
    if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
    for (const details of opened) details.open = false;
    for (const figure of figures) figure.draw();
  });
}

async function start() {
  document.documentElement.classList.add('js');
  const figures = [];
  startTheme(() => drawAll(figures));
  startFilters();
  const data = await readData();
  for (const place of document.querySelectorAll('[data-chart]')) {
    figures.push(new Figure(place, CHARTS[place.dataset.chart], data));
  }
  startFolding(() => resizeAll(figures));
  await drawAll(figures);
  new ResizeObserver(() => resizeAll(figures)).observe(document.body);
  startPrinting(figures);
  document.body.dataset.report = 'drawn';
}

start().catch((error) => {
  // The plain figures take the place of what could not be drawn.
  document.documentElement.classList.remove('js');
  document.body.dataset.report = 'failed';
  throw error;
});
