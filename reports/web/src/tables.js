// Search over long tables: <input type="search" data-filters="ID of the table">.

// As reports/html/markup.hpp has it.
const ROWS_ON_PAPER = 5;

/** How many of the shown rows paper leaves out, below the table. */
function noteMore(table, shown) {
  const more = table.closest('.scroll')?.nextElementSibling;
  if (!more?.classList.contains('more')) return;
  more.hidden = shown <= ROWS_ON_PAPER;
  more.textContent = `${shown - ROWS_ON_PAPER} more on screen.`;
}

/** `matched` is called with the words of a search, in small letters. */
export function startFilters(matched = () => {}) {
  for (const input of document.querySelectorAll('input[data-filters]')) {
    const table = document.getElementById(input.dataset.filters);
    const rows = [...table.tBodies[0].rows].map((row) => [row, row.textContent.toLowerCase()]);
    const count = document.getElementById(`${input.dataset.filters}-count`);
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [row, text] of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        if (!row.hidden) ++shown;
      }
      count.textContent = `${shown} of ${rows.length}`;
      noteMore(table, shown);
      matched(words);
    };
    input.closest('.search').hidden = false;
    input.addEventListener('input', filter);
    filter();
  }
}
