"""The page that `pipelines.inspection.inspect` writes: plain HTML that opens from a disk."""

import html

from pipelines.inspection.inspect import facts

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; }
h2 { margin-top: 3rem; border-bottom: 1px solid #8886; }
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; background: white; padding: .5rem; box-sizing: border-box; }
figcaption, .note { max-width: 45rem; margin-top: .5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin-top: 1rem; }
th, td { text-align: right; padding: .1rem 1rem .1rem 0; border-bottom: 1px solid #8883; }
th:first-child, td:first-child { text-align: left; }
summary { cursor: pointer; margin-top: .5rem; }
"""

LONG = 14  # rows of a table that is folded


def page(model, sections, names):
    """The HTML of all sections.

    Args:
        model: The model.
        sections: List of `Section`; pictures lie beside the page.
        names: Names of the images that were looked at.
    """
    title = f"Inside {html.escape(model.name)}"
    looked_at = f"<p>Looked at with {len(names)} image(s): {_listed(names)}.</p>" if names else ""
    body = "\n".join(_section(section) for section in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
{_table((("model", ""), *facts(model)))}
{looked_at}
<p>Figures are those of "An Image is Worth 16x16 Words" (arXiv 2010.11929).</p>
{body}
</body>
</html>
"""


def _section(section):
    title, caption = html.escape(section.title), html.escape(section.caption)
    if not section.file:
        return f'<h2>{title}</h2>\n<p class="note">{caption}</p>'
    picture = f'<img src="{section.file}.png" alt="{title}">'
    table = _table(section.table)
    if len(section.table) > LONG:
        table = f"<details><summary>{len(section.table) - 1} rows</summary>{table}</details>"
    return (
        f"<h2>{title}</h2>\n<figure>{picture}\n<figcaption>{caption}</figcaption></figure>\n{table}"
    )


def _table(rows):
    if not rows:
        return ""
    header, *others = rows
    lines = [_row(header, "th"), *(_row(row, "td") for row in others)]
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def _row(cells, tag):
    return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"


def _listed(names, most=8):
    shown = ", ".join(html.escape(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
