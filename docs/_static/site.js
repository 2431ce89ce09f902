// What scrolls is reached with the keyboard, and each landmark has a name of its own.
document.addEventListener("DOMContentLoaded", () => {
  for (const each of document.querySelectorAll("pre, .table-wrapper, .cell_output, p:has(> img)")) each.tabIndex = 0;
  // Sphinx writes the parameters of a long signature as descriptions of nothing.
  for (const each of document.querySelectorAll("dt dl")) each.setAttribute("role", "none");
  const names = { ".sidebar-drawer": "Pages", ".toc-drawer": "On this page", ".mobile-header": "Top" };
  const asked = document.querySelector(".search-field input");
  if (asked) asked.value = new URLSearchParams(location.search).get("q");
  for (const [selector, name] of Object.entries(names))
    document.querySelector(selector)?.setAttribute("aria-label", name);
});
