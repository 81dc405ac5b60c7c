// What the page was written from: the result, as result.json has it, and the detail of the run.
// Both are JSON in the page; a large detail is gzip in base64.

const textOf = (id) => document.getElementById(id).textContent;

async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

export async function readData() {
  const isPacked = document.getElementById('detail').type === 'application/gzip';
  const detail = JSON.parse(isPacked ? await unpack(textOf('detail')) : textOf('detail'));
  return { result: JSON.parse(textOf('result')), detail };
}
