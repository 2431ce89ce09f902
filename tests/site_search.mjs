// Asks the search of a built site, with its own script and index: node site_search.mjs FOLDER QUERY...
// Prints a JSON list with the pages of each query, the first one first.
import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";

const [folder, ...queries] = process.argv.slice(2);
const element = { lastChild: null, addEventListener() {} };
const page = createContext({
  document: { ...element, getElementById: () => element, documentElement: { dataset: {} } },
  location: { search: "" },
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
  URLSearchParams,
  _: (text) => text, // as the site does where it is in English
  _ready() {},
});
page.window = page;
for (const name of ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"])
  runInContext(readFileSync(`${folder}/${name}`, "utf8"), page);
page.ask = (query) => runInContext(`Search._performSearch(...Search._parseQuery(${JSON.stringify(query)}))`, page);
const pages = queries.map((query) => [...new Set(page.ask(query).reverse().map((result) => result[0]))]);
console.log(JSON.stringify(pages));
