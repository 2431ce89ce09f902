// What a match is worth in the site's search: Sphinx' own numbers, and more for a page that answers a question.
var Scorer = {
  score: ([page, , , , score]) => score + (page.startsWith("how-to/") && page !== "how-to/index" ? 4 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
