// Light and dark: the style sheet has the colours, the charts take them from there.

const style = () => getComputedStyle(document.documentElement);
const darkSystem = matchMedia('(prefers-color-scheme: dark)');

/** Colours of the charts as they are now. */
export function readTheme() {
  const css = style();
  const color = (name) => css.getPropertyValue(`--${name}`).trim();
  const list = (name, count) => Array.from({ length: count }, (_, i) => color(`${name}-${i}`));
  return {
    ink: color('ink'),
    muted: color('muted'),
    line: color('line'),
    card: color('card'),
    alarm: color('alarm'),
    time: list('time', 4), // Compute, exposed communication, bubble, host.
    onTime: list('on-time', 4), // Text on these.
    hidden: color('hidden'),
    onHidden: color('on-hidden'),
    memory: list('memory', 5),
    onMemory: list('on-memory', 5),
    bars: list('bar', 12), // Of a schedule: computations, then communications.
    onBars: list('on-bar', 12),
    heat: list('heat', 4),
    font: css.getPropertyValue('--font').trim(),
  };
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : darkSystem.matches;
};

/** The button chooses between the two; until then the system does. `changed` draws anew. */
export function startTheme(changed) {
  const button = document.getElementById('theme');
  const name = () => {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', `Show this page in ${isDark() ? 'light' : 'dark'} colours`);
  };
  button.hidden = false;
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    name();
    changed();
  });
  darkSystem.addEventListener('change', () => {
    name();
    changed();
  });
  name();
}
