// Bundles the script and the style of the report: node build.mjs OUTPUT_FOLDER, after `npm ci`.
// Equal sources and an equal lockfile give equal bytes; tests/html/bundle holds dist/ against that.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const output = process.argv[2];

/** A text as lines without trailing space, so that it reads the same wherever it is shown. */
const read = (path) => readFileSync(path, 'utf8').replaceAll('\r\n', '\n').replace(/[ \t]+$/gm, '').trim();

// Every report is a copy of these libraries, so it carries what their licences ask for.
const notices = [
  ['Apache ECharts: NOTICE', read('node_modules/echarts/NOTICE')],
  ['Apache ECharts: LICENSE', read('node_modules/echarts/LICENSE')],
  ['d3.js, parts of which are in Apache ECharts: LICENSE', read('node_modules/echarts/licenses/LICENSE-d3')],
  ['ZRender: LICENSE', read('node_modules/zrender/LICENSE')],
  ['tslib: LICENSE', read('node_modules/tslib/LICENSE.txt')],
].map(([title, text]) => `==== ${title}\n\n${text}\n`).join('\n');
if (notices.includes('*/')) throw new Error('a licence would end the comment that holds it');

const scriptOf = async (entry) => {
  const built = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    charset: 'ascii',
    legalComments: 'none', // They stand in the banner, whole.
    target: ['chrome100', 'firefox113', 'safari16.4'], // The first with DecompressionStream, or older.
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  const text = built.outputFiles[0].text;
  if (/<\/script|<!--/i.test(text)) throw new Error('the script would end the element that holds it');
  return text;
};
const style = await build({
  entryPoints: ['src/report.css'],
  minify: true,
  write: false,
  charset: 'ascii',
  legalComments: 'none',
  target: ['chrome100', 'firefox113', 'safari16.4'],
});

mkdirSync(output, { recursive: true });
writeFileSync(join(output, 'report.js'), `/*!\n${notices}*/\n${await scriptOf('src/main.js')}`);
writeFileSync(join(output, 'page.js'), await scriptOf('src/page.js')); // Nothing of the libraries.
writeFileSync(join(output, 'report.css'), style.outputFiles[0].text);
writeFileSync(join(output, 'NOTICE'), `${read('node_modules/echarts/NOTICE')}\n`);
writeFileSync(join(output, 'LICENSE'), `${read('node_modules/echarts/LICENSE')}\n`);
