"""One document, and the forms that it takes: text, Markdown, HTML, JUnit XML; and records as JSON."""
