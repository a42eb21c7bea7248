#!/usr/bin/env python3
"""Draws the pictures of the documents: each docs/pictures/NAME.txt becomes NAME.svg beside it.

  scripts/draw.py            draws all of them anew
  scripts/draw.py --check    says which are not what their text draws

A text is of one of two kinds. Of boxes on a grid, and links between them:
  box NAME COLUMN ROW | title | line | line
  link NAME NAME | what flows
  group COLUMN ROW COLUMNS ROWS | title
Or of lanes, and what passes between them, one line after the other:
  lanes | one | another
  ONE -> ANOTHER | what it says
  note ONE | what it does
  rule | what changes here
"""
import html
import pathlib
import sys

WIDTH, HEIGHT, GAP_X, GAP_Y, EDGE = 214, 76, 30, 54, 28
LANE, ROW = 190, 34
STYLE = """<style>
text{font:13px system-ui,sans-serif;fill:#1b1f24}.title{font-weight:600}.small{font-size:12px;fill:#57606a}
.box{fill:#f6f8fa;stroke:#57606a}.note{fill:#fff8c5;stroke:#d4a72c}.group{fill:none;stroke:#afb8c1;stroke-dasharray:6 4}
.line{stroke:#57606a;fill:none}.rule{stroke:#cf222e;stroke-dasharray:2 3}.red{fill:#cf222e}
</style><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>"""


def label(x, y, words, kind="small", anchor="middle"):
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{html.escape(words)}</text>'


def frame(x, y, width, height, kind):
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'


def line(x1, y1, x2, y2, kind="line", tip=True):
    end = ' marker-end="url(#tip)"' if tip else ""
    return f'<path class="{kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"{end}/>'


def svg(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}">'
            f'{STYLE}<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


def corner(column, row):
    return EDGE + column * (WIDTH + GAP_X), EDGE + row * (HEIGHT + GAP_Y)


def edge_towards(box, other):
    """Where a line from the middle of a box to another leaves it."""
    (x, y), (to_x, to_y) = box, other
    dx, dy = to_x - x, to_y - y
    scale = min(WIDTH / 2 / abs(dx) if dx else 1e9, HEIGHT / 2 / abs(dy) if dy else 1e9)
    return x + dx * scale, y + dy * scale


def draw_boxes(lines):
    groups, boxes, links, middles, far = [], [], [], {}, [0, 0]
    for words, texts in lines:
        if words[0] == "group":
            column, row, columns, rows = (float(word) for word in words[1:])
            x, y = corner(column, row)
            width, height = columns * (WIDTH + GAP_X) - GAP_X + 28, rows * (HEIGHT + GAP_Y) - GAP_Y + 36
            groups += [frame(x - 14, y - 24, width, height, "group"), label(x - 6, y - 8, texts[0], anchor="start")]
        elif words[0] == "box":
            x, y = corner(float(words[2]), float(words[3]))
            middles[words[1]] = (x + WIDTH / 2, y + HEIGHT / 2)
            far = [max(far[0], x + WIDTH), max(far[1], y + HEIGHT)]
            boxes.append(frame(x, y, WIDTH, HEIGHT, "box"))
            top = y + HEIGHT / 2 - (len(texts) - 1) * 8.5 + 4
            for i, text in enumerate(texts):
                boxes.append(label(x + WIDTH / 2, top + 17 * i, text, "small" if i else "title"))
        else:
            one, other = middles[words[1]], middles[words[2]]
            begin, end = edge_towards(one, other), edge_towards(other, one)
            links.append(line(*begin, *end))
            x, y = (begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2
            steep = abs(end[1] - begin[1]) > abs(end[0] - begin[0])
            for i, text in enumerate(texts):
                links.append(label(x + (6 if steep else 0), y + (4 if steep else -6) + 15 * i, text,
                                   anchor="start" if steep else "middle"))
    return svg(far[0] + EDGE + 20, far[1] + EDGE + 20, groups + boxes + links)


def draw_lanes(lines):
    lanes = {name: EDGE + LANE / 2 + i * LANE for i, name in enumerate(lines[0][1])}
    y, parts = EDGE + 62, []
    width = EDGE * 2 + LANE * len(lanes)
    for words, texts in lines[1:]:
        if words[0] == "rule":
            parts += [line(EDGE, y, width - EDGE, y, "rule", False), label(EDGE, y - 5, texts[0], "small red", "start")]
        elif words[0] == "note":
            x = lanes[" ".join(words[1:])]
            wide = 8 + 6.6 * max(len(text) for text in texts)
            parts.append(frame(x - wide / 2, y - 15, wide, 16 * len(texts) + 6, "note"))
            parts += [label(x, y + 16 * i, text) for i, text in enumerate(texts)]
            y += 16 * (len(texts) - 1)
        else:
            one, other = (lanes[name.strip()] for name in " ".join(words).split("->"))
            parts += [line(one, y, other, y), label((one + other) / 2, y - 5, texts[0])]
        y += ROW
    heads = []
    for name, x in lanes.items():
        heads.append(line(x, EDGE + 30, x, y, "line", False).replace('class="line"', 'class="group"'))
        heads += [frame(x - 70, EDGE, 140, 30, "box"), label(x, EDGE + 20, name, "title")]
    return svg(width, y + EDGE, heads + parts)


def draw(path):
    lines = []
    for text in path.read_text().splitlines():
        if text.strip() and not text.startswith("#"):
            words, *texts = (part.strip() for part in text.split("|"))
            lines.append((words.split(), texts))
    return draw_lanes(lines) if lines[0][0][0] == "lanes" else draw_boxes(lines)


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "docs" / "pictures"
    stale = []
    for path in sorted(folder.glob("*.txt")):
        drawn, there = draw(path), path.with_suffix(".svg")
        if there.exists() and there.read_text() == drawn:
            continue
        stale.append(there.name)
        if "--check" not in sys.argv:
            there.write_text(drawn)
    if "--check" in sys.argv and stale:
        sys.exit(f"{', '.join(stale)}: not what the text beside it draws; run scripts/draw.py")


if __name__ == "__main__":
    main()
