// Ranks the pages that hold any word of a query. Sphinx's own search drops every page that lacks one of the words.
var Scorer = {
  // A page that answers a question comes before a page of the reference that holds the same words. A list of every file,
  // operator or fault holds most words and answers few questions.
  score: ([page, , , , score]) => {
    const isList = ["architecture", "gallery", "operator-measurements", "upstream"].includes(page);
    return isList ? score / 2 : score + (page.startsWith("how-to/") && page !== "how-to/index" ? 2 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
};

// The worth of a word, by its place in a page.
const WEIGHTS = { title: 4, heading: 2.5, text: 1, partial: 0.6 };

// Returns the entries of an index, by page, of the words that begin as `word` does; of the word alone if it is there.
function matchesOf(word, index) {
  const isExact = Object.hasOwn(index, word);
  const words = isExact ? [word] : word.length > 3 ? Object.keys(index).filter((each) => each.startsWith(word)) : [];
  return { pages: new Set(words.flatMap((each) => index[each])), isExact };
}

// Returns the stems of a text.
function stemsOf(text) {
  const stemmer = new Stemmer();
  return new Set(splitQuery(text.toLowerCase()).map((word) => stemmer.stemWord(word)));
}

// Scores each page by its words: a rare word counts more than a common one, a heading more than the text below it.
Search.performTermsSearch = (searchTerms, excludedTerms) => {
  const { docnames, filenames, titles, terms, titleterms, alltitles } = Search._index;
  const pageTitles = titles.map(stemsOf);
  const rarities = new Map();
  const scores = new Map();
  for (const word of searchTerms) {
    const [inText, inHeadings] = [matchesOf(word, terms), matchesOf(word, titleterms)];
    const pages = new Set([...inText.pages, ...inHeadings.pages]);
    const rarity = Math.log(1 + titles.length / (pages.size || 1));
    rarities.set(word, rarity);
    for (const page of pages) {
      const place = pageTitles[page].has(word) ? "title" : inHeadings.pages.has(page) ? "heading" : "text";
      const { isExact } = place === "text" ? inText : inHeadings;
      const worth = rarity * WEIGHTS[place] * (isExact || place === "title" ? 1 : WEIGHTS.partial);
      scores.set(page, (scores.get(page) || 0) + worth);
    }
  }
  for (const word of excludedTerms) for (const page of matchesOf(word, terms).pages) scores.delete(page);

  // A result leads to the heading that holds most of the query.
  const headings = new Map();
  for (const [heading, places] of Object.entries(alltitles)) {
    const stems = stemsOf(heading);
    const worth = [...searchTerms].reduce((sum, word) => sum + (stems.has(word) ? rarities.get(word) : 0), 0);
    for (const [page, id] of places) {
      const best = headings.get(page) || { worth: 0 };
      if (id !== null && heading !== titles[page] && worth > best.worth) headings.set(page, { worth, heading, id });
    }
  }
  return [...scores].map(([page, score]) => {
    const best = headings.get(page);
    const title = best ? `${titles[page]} > ${best.heading}` : titles[page];
    return [docnames[page], title, best ? `#${best.id}` : "", null, score, filenames[page], SearchResultKind.text];
  });
};
