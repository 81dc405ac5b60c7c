// Sections that are folded away: <details class="part">.

/**
 * A link to a folded section opens it; the button opens or closes all. `seen` is called when a
 * section has been opened or closed.
 */
export function startFolding(seen = () => {}) {
  const openTarget = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.matches('details')) at.open = true;
    target.scrollIntoView();
  };
  const button = document.getElementById('unfold');
  const parts = () => [...document.querySelectorAll('details.part')];
  const name = () => {
    const all = parts().every((part) => part.open);
    button.textContent = all ? 'Close all' : 'Open all';
    document.documentElement.classList.toggle('whole', all && parts().length > 0); // Printed whole.
  };
  button.hidden = false;
  button.addEventListener('click', () => {
    const open = !parts().every((part) => part.open);
    for (const part of parts()) part.open = open;
  });
  // The event does not bubble, but it can be caught on its way down.
  document.addEventListener('toggle', () => {
    name();
    seen();
  }, true);
  addEventListener('hashchange', openTarget);
  openTarget();
  name();
}
