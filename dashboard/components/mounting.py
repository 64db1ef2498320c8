"""Makes elements of the pages from a script and a style in this folder; what they show comes as data, not as markup."""

from pathlib import Path

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

FOLDER = Path(__file__).parent


def component(name: str) -> ComponentRenderer:
    """What shows the component of that name, `name.js` and `name.css`."""
    script, style = ((FOLDER / f"{name}.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component(f"sahaj_{name}", html="<div class='whole'></div>", css=style, js=script)
