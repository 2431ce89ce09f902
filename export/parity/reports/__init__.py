"""Reports: one document and its renderers for text, Markdown, HTML and JUnit XML, and records as JSON."""
