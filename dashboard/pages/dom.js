// Creates elements; their text is never parsed as HTML.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function table(headings, rows, {className = "", text = 1} = {}) {
  const cell = (tag) => (content, i) =>
    (content instanceof Element && ["TD", "TH"].includes(content.tagName) ? content
      : element(tag, {class: i < text ? "text" : "", scope: tag === "th" ? "col" : undefined}, content ?? "–"));
  return element("table", {class: className},
    element("thead", {}, element("tr", {}, ...headings.map(cell("th")))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td"))))));
}

export const fill = (holder, ...children) => holder.replaceChildren(...children.filter(Boolean));
