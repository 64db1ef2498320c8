"""The language of a page: English stands in the code, others in `translations/`, as gettext has them.

A reader's is what they choose at the foot of a page or by `?lang=`, else that of `SAHAJ_LANGUAGE`, of the run, English.
"""

import os
from functools import lru_cache
from pathlib import Path

import streamlit as st
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po
from streamlit.runtime.scriptrunner import get_script_run_ctx

SOURCE = "en"
NAMES = {SOURCE: "English", "bn": "বাংলা"}  # as their readers call them
VARIABLE = "SAHAJ_LANGUAGE"
CHOICE, OF_RUN = "lang", "run-language"  # of a reader, in the address and in their session; and what the run says
TRANSLATIONS = Path(__file__).with_name("translations")


def begin(run: str) -> None:
    """Keep in the reader's session what the run says, and what the address asks for."""
    st.session_state[OF_RUN] = run
    if CHOICE not in st.session_state:
        st.session_state[CHOICE] = known(st.query_params.get(CHOICE, "")) or current()


def choose() -> None:
    """The choice at the foot of a page."""
    names = list(NAMES)
    st.segmented_control(
        "Language", names, format_func=lambda code: NAMES[code], key=CHOICE, label_visibility="collapsed"
    )


def current() -> str:
    """The code of the reader's language, one of `NAMES`."""
    if get_script_run_ctx(suppress_warning=True) is None:
        return SOURCE
    asked = (st.session_state.get(CHOICE), os.environ.get(VARIABLE), st.session_state.get(OF_RUN))
    return next((code for one in asked if one and (code := known(one))), SOURCE)


def known(code: str) -> str:
    """bn, for bn-BD; empty if there is no translation."""
    base = code.replace("_", "-").partition("-")[0].casefold()
    return base if base in NAMES else ""


@lru_cache(maxsize=len(NAMES))
def catalogue(code: str) -> Catalog:
    """What there is in a language."""
    with (TRANSLATIONS / f"{code}.po").open("rb") as file:
        return read_po(file, locale=code)


def _(text: str) -> str:
    """A text in the reader's language; in English where that has none."""
    message = _find(text)
    return str(message.string) if message is not None and message.string else text


def several(one: str, many: str, count: float) -> str:
    """One of two forms, by a count, in the reader's language."""
    message = _find((one, many))
    forms = message.string if message is not None and isinstance(message.string, tuple | list) else ()
    return (forms[0 if count == 1 else -1] if forms else "") or (one if count == 1 else many)


def _find(text: str | tuple[str, str]) -> Message | None:
    code = current()
    return None if code == SOURCE else catalogue(code).get(text)


def mark(text: str) -> str:
    """A text that is translated where it is shown."""
    return text
