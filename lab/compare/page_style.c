/* page_style.c: the look of the page; see page_parts.h. Nothing in it comes from elsewhere: fonts are the
 * reader's. */
#include "page_parts.h"

static const char style[] =
    ":root { color-scheme: light; }\n"
    "body { font: 15px/1.45 system-ui, sans-serif; color: #1c1c1c; background: #fff; max-width: 1400px;\n"
    "  margin: 0 auto; padding: 1rem 1.2rem; overflow-wrap: break-word; }\n"
    "h1 { font-size: 1.7rem; margin: 0 0 .4rem; } h2 { margin: 2.2rem 0 .6rem; } h3 { margin: 0 0 .3rem; }\n"
    "p { margin: 0 0 .5rem; }\n"
    "code { font-size: .88em; overflow-wrap: anywhere; color: #444; }\n"
    "dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .6rem 0; }\n"
    "dt { font-weight: 600; } dd { margin: 0; min-width: 0; }\n"
    "a { color: #14508c; }\n"
    "table { border-collapse: collapse; width: 100%; }\n"
    "th, td { border: 1px solid #d5d5d5; padding: .5rem .6rem; text-align: left; vertical-align: top; }\n"
    "thead th { background: #eef1f5; } tbody th { font-weight: 600; }\n"
    ".results { table-layout: fixed; font-size: .9rem; } .results th:first-child { width: 11rem; }\n"
    ".results thead th { position: sticky; top: 0; }\n"
    ".results th code { display: block; font-weight: 400; }\n"
    ".results p { margin: .35rem 0 0; } .broken ~ .why { font-weight: 600; color: #a00000; }\n"
    ".promise { color: #555; font-size: .85em; }\n"
    ".verdict { display: inline-block; border-radius: .25rem; padding: 0 .45rem; font-weight: 600; }\n"
    ".kept { background: #dcf0df; color: #14522a; } .measured { background: #e3ecf7; color: #17406e; }\n"
    ".exception { background: #fdecc8; color: #6a4300; } .not-run { background: #ececec; color: #4a4a4a; }\n"
    ".broken { background: #c40000; color: #fff; } td:has(.broken) { outline: 3px solid #c40000;\n"
    "  outline-offset: -3px; }\n"
    ".key { list-style: none; padding: 0; margin: .5rem 0 1rem; display: flex; flex-wrap: wrap;\n"
    "  gap: .3rem 1.4rem; font-size: .9rem; }\n"
    ".swatch { display: inline-block; width: 1.6em; height: .8em; } .refused { color: #d40000; }\n"
    "section { border-top: 1px solid #d5d5d5; padding: 1.2rem 0; }\n"
    ".charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 540px), 1fr));\n"
    "  gap: .6rem 1.2rem; align-items: start; }\n"
    ".charts img { width: 100%; max-width: 700px; height: auto; }\n"
    "details { margin: .5rem 0 1rem; } summary { cursor: pointer; color: #14508c; }\n"
    ".wide { overflow-x: auto; } .lanes { text-decoration: none; }\n"
    ".figures { width: auto; font-size: .9rem; margin-top: .4rem; font-variant-numeric: tabular-nums; }\n"
    ".figures th, .figures td { padding: .15rem .6rem; white-space: nowrap; }\n"
    ".figures td:nth-child(n+3) { text-align: right; }\n"
    "@media (max-width: 900px) {\n"
    "  .results { min-width: 0 !important; }\n"
    "  .results, .results tbody, .results tr, .results th, .results td { display: block; width: auto; }\n"
    "  .results thead { display: none; } .results th:first-child { width: auto; background: #eef1f5; }\n"
    "  .results th code { display: inline; } .results tr { margin-bottom: 1rem; }\n"
    "  .results td::before { content: attr(data-backend); font-weight: 600; margin-right: .5rem; }\n"
    "  dl { grid-template-columns: 1fr; } dd { margin-bottom: .3rem; }\n"
    "}\n"
    "@media print { .results thead th { position: static; } section { break-inside: avoid; } }\n";

const char *lk_page_style(void)
{
    return style;
}
